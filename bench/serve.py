"""Section serve: `/features` served from memory and from Redis, compared with the same server returning a constant.

round 1   constant ▸ memory ▸ Redis     a share is a store's rate over the constant's of the same round
round 2   constant ▸ memory ▸ Redis     figures are medians over the rounds
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.entities import card
from bench.parts import NO_REDIS, Server, own_redis, redis_program, serving
from bench.results import Goal, Result, Table
from bench.section import Run
from bench.wrk import Answered, Question, ask, medians, require_wrk

CONNECTIONS = (1, 8, 32)
GOALS = {"memory": 0.40, "Redis": 0.15}
ANEW = ", each anew"
VISITS_AN_HOUR = 10
WARM_UP_SECONDS = 2
NOTE = (
    "One random card a request, ten features over 10m, 1h and 7d; {tiles:.0f} tiles a card were applied. "
    "wrk keeps every connection busy, so P50 and P99 are those of a full server. An answer is kept until a tile "
    "changes, enters a window or leaves one; “each anew” is the same server that keeps none."
)


@dataclass(frozen=True)
class Size:
    """The size of the measurement."""

    cards: int
    rounds: int
    seconds: int


FULL, QUICK = Size(cards=5_000, rounds=5, seconds=4), Size(cards=1_000, rounds=1, seconds=1)


@dataclass(frozen=True)
class Shared:
    """A server's figures, and its rate as a share of the constant's."""

    answered: Answered
    share: float


Rounds = list[dict[str, Answered]]


def measure(run: Run) -> Result:
    """Run the section."""
    require_wrk()
    size = QUICK if run.quick else FULL
    with _servers(run, size) as servers:
        run.say(f"warming up {len(servers)} servers, {size.cards:,} cards each")
        for server in servers.values():
            ask(server.question, 8, WARM_UP_SECONDS, size.cards)
        questions = {name: server.question for name, server in servers.items()}
        found = {connections: shared(rounds_of(run, size, questions, connections)) for connections in CONNECTIONS}
        filled = servers["memory"].filled
    return result(found, filled.tiles / filled.cards)


@contextmanager
def _servers(run: Run, size: Size) -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        redis_url = stack.enter_context(own_redis(run.folder)) if redis_program() else None
        stores = stack.enter_context(stores_of(run.folder, size.cards, redis_url, time.time_ns() // 1000))
        answer = run.folder / "answer.json"
        answer.write_bytes(stores["memory"].question.answer(card(1)))
        yield {"constant": stack.enter_context(serving(run.folder, "constant", str(answer))), **stores}


@contextmanager
def stores_of(
    folder: Path, cards: int, redis_url: str | None, now_us: int, workers: int = 1
) -> Iterator[dict[str, Server]]:
    """Servers of the same cards in memory and, if there is one, in Redis; each also without cached responses."""
    filling = ("--cards", str(cards), "--visits", str(VISITS_AN_HOUR), "--now", str(now_us))
    kinds = {"memory": ("memory", *filling)} | ({"Redis": ("redis", *filling, "--url", redis_url)} if redis_url else {})
    with ExitStack() as stack:
        servers = {}
        for name, arguments in kinds.items():
            servers[name] = stack.enter_context(serving(folder, *arguments, workers=workers))
            servers[f"{name}{ANEW}"] = stack.enter_context(serving(folder, *arguments, "--forget", workers=workers))
        yield servers


def rounds_of(run: Run, size: Size, questions: Mapping[str, Question], connections: int) -> Rounds:
    """Measure every server in turn, in rounds."""
    rounds = []
    for number in range(size.rounds):
        run.say(f"{_connections(connections)}, round {number + 1} of {size.rounds}")
        rounds.append({name: ask(one, connections, size.seconds, size.cards) for name, one in questions.items()})
    return rounds


def shared(rounds: Rounds) -> dict[str, Shared]:
    """The medians of each server over the rounds, and its share of the constant's rate."""
    return {
        name: Shared(
            medians([one[name] for one in rounds]),
            median(one[name].requests_a_second / one["constant"].requests_a_second for one in rounds),
        )
        for name in rounds[0]
    }


def result(found: Mapping[int, Mapping[str, Shared]], tiles_a_card: float) -> Result:
    """The section's table, goals and figures."""
    names = list(next(iter(found.values())))
    rows = [
        [f"{name}, {_connections(connections)}", *_cells(by_name[name])]
        for name in names
        for connections, by_name in found.items()
    ]
    return Result(
        section="serve",
        table=Table(["answers", "requests/s", "of the constant", "P50", "P99"], rows),
        figures={
            str(connections): {name: asdict(one) for name, one in by.items()} for connections, by in found.items()
        },
        goals=[_goal(name, found) for name in GOALS if name in names],
        notes=[NOTE.format(tiles=tiles_a_card), *([] if "Redis" in names else [NO_REDIS])],
    )


def _connections(count: int) -> str:
    return f"{count} connection{'' if count == 1 else 's'}"


def _cells(one: Shared) -> list[str]:
    figures = one.answered
    return [
        f"{figures.requests_a_second:,.0f}",
        f"{one.share:.0%}",
        f"{figures.p50_ms:.2f} ms",
        f"{figures.p99_ms:.2f} ms",
    ]


def _goal(name: str, found: Mapping[int, Mapping[str, Shared]]) -> Goal:
    least = min(by_name[name].share for by_name in found.values())
    return Goal(f"{name} at least {GOALS[name]:.0%} of the constant", f"{least:.0%} at the least", least >= GOALS[name])
