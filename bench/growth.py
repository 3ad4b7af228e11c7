"""Section growth: from a thousand cards to a million, in memory and in Redis."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from bench.machine import available_bytes
from bench.parts import NO_REDIS, Server, own_redis, redis_program, serving
from bench.results import Result, Table
from bench.section import Run
from bench.servers import Filled
from bench.wrk import Answered, ask, require_wrk

VISITS_AN_HOUR = 2
CONNECTIONS = 8
FILL_LIMIT_SECONDS = {"memory": 300.0, "Redis": 120.0}
NOTE = (
    "{tiles:.0f} tiles a card were applied; those no window holds any more are let go of. Memory is the growth of the "
    f"server's resident set, for Redis of its used memory. {CONNECTIONS} connections, one random card a request."
)


@dataclass(frozen=True)
class Size:
    """The size of the measurement."""

    cards: tuple[int, ...]
    seconds: float


FULL = Size(cards=(1_000, 10_000, 100_000, 1_000_000), seconds=6)
QUICK = Size(cards=(1_000, 10_000), seconds=1)


@dataclass(frozen=True)
class Grown:
    """A store of one size."""

    store: str
    filled: Filled
    answered: Answered

    @property
    def tiles_a_second(self) -> float:
        return self.filled.tiles / self.filled.apply_seconds

    @property
    def bytes_a_card(self) -> float:
        return self.filled.bytes / self.filled.cards


def measure(run: Run) -> Result:
    """Run the section."""
    require_wrk()
    size = QUICK if run.quick else FULL
    stores, skipped = (("memory", "Redis"), []) if redis_program() else (("memory",), [NO_REDIS])
    grown = [one for store in stores for one in _grow(run, store, size, skipped)]
    return result(grown, skipped)


def _grow(run: Run, store: str, size: Size, skipped: list[str]) -> Iterator[Grown]:
    before: Grown | None = None
    for cards in size.cards:
        why = _too_much(before, cards)
        if why:
            skipped.append(f"{store} with {cards:,} cards was left out: {why}.")
            run.say(skipped[-1])
            return
        run.say(f"{store}: {cards:,} cards")
        with _store(run, store, cards) as server:
            ask(server.question, CONNECTIONS, 1, cards)  # the server's first answers are slower
            before = Grown(store, server.filled, ask(server.question, CONNECTIONS, size.seconds, cards))
        yield before


def _too_much(before: Grown | None, cards: int) -> str:
    """Why a size is skipped, estimated from the previous one; empty if it is not."""
    if before is None:
        return ""
    seconds = cards * before.filled.tiles / before.filled.cards / before.tiles_a_second
    if seconds > FILL_LIMIT_SECONDS[before.store]:
        return f"filling it would take about {seconds:.0f} s"
    available = available_bytes()
    return f"{available / 1e9:.1f} GB of memory are free" if cards * before.bytes_a_card * 1.5 > available else ""


@contextmanager
def _store(run: Run, store: str, cards: int) -> Iterator[Server]:
    filling = ("--cards", str(cards), "--visits", str(VISITS_AN_HOUR), "--now", str(time.time_ns() // 1000))
    with ExitStack() as stack:
        if store == "memory":
            yield stack.enter_context(serving(run.folder, "memory", *filling))
            return
        url = stack.enter_context(own_redis(run.folder))
        yield stack.enter_context(serving(run.folder, "redis", *filling, "--url", url))


def result(grown: list[Grown], skipped: list[str]) -> Result:
    """The section's table and figures."""
    tiles_a_card = grown[0].filled.tiles / grown[0].filled.cards
    return Result(
        section="growth",
        table=Table(
            ["cards", "bytes a card", "tiles applied/s", "requests/s", "P50", "P99"], [_row(one) for one in grown]
        ),
        figures={
            "stores": [
                {**asdict(one), "bytes_a_card": one.bytes_a_card, "tiles_a_second": one.tiles_a_second} for one in grown
            ]
        },
        notes=[NOTE.format(tiles=tiles_a_card), *skipped],
    )


def _row(one: Grown) -> list[str]:
    return [
        f"{one.store}, {one.filled.cards:,}",
        f"{one.bytes_a_card:,.0f}",
        f"{one.tiles_a_second:,.0f}",
        f"{one.answered.requests_a_second:,.0f}",
        f"{one.answered.p50_ms:.2f} ms",
        f"{one.answered.p99_ms:.2f} ms",
    ]
