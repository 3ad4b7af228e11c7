"""Section anchor: `/features` from memory and from Redis, beside Feast's own server on the very same Redis.

round 1   Feast ▸ memory ▸ Redis     a ratio is one of two servers of the same round
round 2   Feast ▸ memory ▸ Redis     figures are medians over the rounds
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median

from bench.entities import PATTERNS, Cards, card
from bench.errors import BenchFailed, Skipped
from bench.parts import NO_REDIS, Server, own_redis, redis_program
from bench.peers.feast.server import WORKERS, Feast, feast_server
from bench.peers.feast.setup import set_up, version
from bench.results import Goal, Result, Table
from bench.section import Run
from bench.serve import FULL, QUICK, VISITS_AN_HOUR, WARM_UP_SECONDS, Rounds, Size, rounds_of, stores_of
from bench.truth import Vector, differences, vector
from bench.wrk import Answered, Question, ask, medians, require_wrk

PEER = "Feast"
CONNECTIONS = 8
TIMES_THE_RATE = {"memory": 10, "Redis": 6}
SHARE_OF_P99 = 1 / 5
TRIED = (1, 42, PATTERNS + 7)  # cards whose answers are looked at before anything is measured
NOTE = (
    f"{CONNECTIONS} connections, one random card of {{cards:,}} and ten features a request, the same wrk for all. "
    f"Feast {{version}} is `feast serve --workers {WORKERS}` in its own environment and reads one finished vector; "
    "Headrace is one process and merges some twenty tiles, or gives an answer again until a tile changes, enters a "
    "window or leaves one; “each anew” is the same server that keeps none. All share one Redis, and cores with wrk. "
    "Before the first round, answers of each were compared with what was written."
)


@dataclass(frozen=True)
class Beside:
    """A server's figures, its rate in Feast's rates and its P99 in Feast's P99s."""

    answered: Answered
    times_the_rate: float
    share_of_p99: float


def measure(run: Run) -> Result:
    """Run the section."""
    require_wrk()
    size = QUICK if run.quick else FULL
    with _servers(run, size) as questions:
        run.say(f"warming up {len(questions)} servers, {size.cards:,} cards each")
        for question in questions.values():
            ask(question, CONNECTIONS, WARM_UP_SECONDS, size.cards)
        rounds = rounds_of(run, size, questions, CONNECTIONS)
    return result(rounds, size.cards)


@contextmanager
def _servers(run: Run, size: Size) -> Iterator[dict[str, Question]]:
    if redis_program() is None:
        raise Skipped(NO_REDIS)
    run.say("setting Feast up in an environment of its own")
    programs = set_up()
    with ExitStack() as stack:
        redis_url = stack.enter_context(own_redis(run.folder))
        now_us = time.time_ns() // 1000
        source = Cards(now_us, VISITS_AN_HOUR)
        stores = stack.enter_context(stores_of(run.folder, size.cards, redis_url, now_us))
        vectors = _vectors(source, size.cards, now_us)
        feast = stack.enter_context(feast_server(programs, run.folder / "feast", redis_url, vectors))
        for name, server in stores.items():
            _require_counted(name, server, source)
        _require_written(feast, vectors)
        yield {PEER: feast.question} | {name: server.question for name, server in stores.items()}


def _vectors(source: Cards, cards: int, now_us: int) -> dict[str, Vector]:
    """The features of every card at a moment; Feast's columns have no nulls."""
    counted = [vector(source.payments(number), now_us) for number in range(PATTERNS)]
    filled = [{name: value or 0 for name, value in one.items()} for one in counted]
    return {card(number): filled[number % PATTERNS] for number in range(cards)}


def _require_counted(name: str, server: Server, source: Cards) -> None:
    """A server of ours says what counting the payments says."""
    for number in TRIED:
        said = json.loads(server.question.answer(card(number)))
        at_us = round(datetime.fromisoformat(said["as_of"]).timestamp() * 1e6)
        found = differences(said["rows"][0]["values"], vector(source.payments(number), at_us))
        if found:
            raise BenchFailed(f"{name} answered wrongly for {card(number)}: {'; '.join(found)}.")


def _require_written(feast: Feast, vectors: Mapping[str, Vector]) -> None:
    """Feast says what was written."""
    for number in TRIED:
        found = differences(feast.vector(card(number)), vectors[card(number)])
        if found:
            raise BenchFailed(f"{PEER} answered wrongly for {card(number)}: {'; '.join(found)}.")


def beside(rounds: Rounds) -> dict[str, Beside]:
    """The medians of each server over the rounds, and its ratios to Feast."""
    return {
        name: Beside(
            medians([one[name] for one in rounds]),
            median(one[name].requests_a_second / one[PEER].requests_a_second for one in rounds),
            median(one[name].p99_ms / one[PEER].p99_ms for one in rounds),
        )
        for name in rounds[0]
    }


def result(rounds: Rounds, cards: int) -> Result:
    """The section's table, goals and figures."""
    found = beside(rounds)
    head = ["answers", "workers", "requests/s", "of Feast's", "P50", "P99", "of Feast's"]
    return Result(
        section="anchor",
        table=Table(head, [_row(name, one) for name, one in found.items()]),
        figures={name: asdict(one) for name, one in found.items()},
        goals=[goal for name, times in TIMES_THE_RATE.items() for goal in _goals(name, times, found[name])],
        notes=[NOTE.format(cards=cards, version=version())],
    )


def _row(name: str, one: Beside) -> list[str]:
    figures = one.answered
    return [
        name,
        str(WORKERS if name == PEER else 1),
        f"{figures.requests_a_second:,.0f}",
        f"{one.times_the_rate:.1f}×",
        f"{figures.p50_ms:.2f} ms",
        f"{figures.p99_ms:.2f} ms",
        f"{one.share_of_p99:.2f}×",
    ]


def _goals(name: str, times: int, one: Beside) -> list[Goal]:
    rate, p99 = one.times_the_rate, one.share_of_p99
    return [
        Goal(f"{name} at least {times} times Feast's requests/s", f"{rate:.1f}×", rate >= times),
        Goal(f"{name} at most a fifth of Feast's P99", f"{p99:.2f}×", p99 <= SHARE_OF_P99),
    ]
