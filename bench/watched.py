"""Section watched: `/features` without listeners, with one page and a scrape, and with a thousand pages.

round 1   none ▸ one page ▸ 1,000 pages     a figure is compared with that of no listeners in the same round
round 2   none ▸ one page ▸ 1,000 pages     figures are medians over the rounds
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median

from bench.errors import BenchFailed
from bench.parts import Server, running, serving
from bench.results import Goal, Result, Table
from bench.section import Run
from bench.wrk import Answered, ask, medians, require_wrk

NOBODY, ONE, MANY = "nobody looks", "one page and a scrape every 5 s", "1,000 pages and a scrape every 5 s"
PAGES = {NOBODY: 0, ONE: 1, MANY: 1000}
CONNECTIONS = 8
VISITS_AN_HOUR = 10
WARM_UP_SECONDS, SETTLE_SECONDS = 2, 3.0
MOST_RATE_LOST, MOST_P99_MORE = 0.05, 0.10
NOTE = (
    "One random card a request, ten features from memory, over 8 connections that wrk keeps busy. The server is all of "
    "it: page, numbers, history. Pages are told every number once a second. Server, wrk and pages share the machine."
)


@dataclass(frozen=True)
class Size:
    """The size of the measurement."""

    cards: int
    rounds: int
    seconds: int


FULL, QUICK = Size(cards=5_000, rounds=5, seconds=10), Size(cards=1_000, rounds=1, seconds=2)
Rounds = list[dict[str, Answered]]


def measure(run: Run) -> Result:
    """Run the section."""
    require_wrk()
    size = QUICK if run.quick else FULL
    filling = ("--cards", str(size.cards), "--visits", str(VISITS_AN_HOUR), "--now", str(time.time_ns() // 1000))
    with serving(run.folder, "whole", *filling, str(run.folder)) as server:
        ask(server.question, CONNECTIONS, WARM_UP_SECONDS, size.cards)
        return result([_round(run, server, size, number) for number in range(size.rounds)])


def _round(run: Run, server: Server, size: Size, number: int) -> dict[str, Answered]:
    found = {}
    for name, pages in PAGES.items():
        run.say(f"round {number + 1} of {size.rounds}: {name}")
        with _looking(run, server, pages):
            found[name] = ask(server.question, CONNECTIONS, size.seconds, size.cards)
    return found


@contextmanager
def _looking(run: Run, server: Server, pages: int) -> Iterator[None]:
    if not pages:
        yield
        return
    output = run.folder / "listeners.out"
    url = server.question.url.rpartition("/features")[0]
    with running([sys.executable, "-m", "bench.listeners", url, str(pages)], output) as listeners:
        time.sleep(SETTLE_SECONDS)
        yield
        if not listeners.is_alive():
            raise BenchFailed(f"The pages ended by themselves:\n{output.read_text()[-2000:]}")


def result(rounds: Rounds) -> Result:
    """The section's table, goals and figures."""
    found = {name: medians([one[name] for one in rounds]) for name in PAGES}
    rate = {
        name: median(one[name].requests_a_second / one[NOBODY].requests_a_second for one in rounds) for name in PAGES
    }
    p99 = {name: median(one[name].p99_ms / one[NOBODY].p99_ms for one in rounds) for name in PAGES}
    return Result(
        section="watched",
        table=Table(["", "requests/s", "of nobody's", "P50", "P99", "of nobody's"], [*_rows(found, rate, p99)]),
        figures={name: asdict(one) | {"rate": rate[name], "p99": p99[name]} for name, one in found.items()},
        goals=[
            Goal(
                f"{ONE}: at most {MOST_RATE_LOST:.0%} fewer requests/s",
                f"{1 - rate[ONE]:.1%}",
                rate[ONE] >= 1 - MOST_RATE_LOST,
            ),
            Goal(
                f"{MANY}: P99 at most {MOST_P99_MORE:.0%} more",
                f"{p99[MANY] - 1:.1%}",
                p99[MANY] <= 1 + MOST_P99_MORE,
            ),
        ],
        notes=[NOTE],
    )


def _rows(found: Mapping[str, Answered], rate: Mapping[str, float], p99: Mapping[str, float]) -> Iterator[list[str]]:
    for name, one in found.items():
        figures = [f"{one.requests_a_second:,.0f}", f"{rate[name]:.0%}", f"{one.p50_ms:.2f} ms", f"{one.p99_ms:.2f} ms"]
        yield [name, *figures, f"{p99[name]:.0%}"]
