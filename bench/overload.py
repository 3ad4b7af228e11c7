"""Section overload: `/predict` with ten times its peak load for a minute, and the time until it recovers.

calm        8, 32, 64 connections          the best of them is the peak
overload    ten times as many, a minute    goodput is the rate of scores, the rest are responses with 429
after       8 connections again            until no request is refused and the rate is the calm one's
"""

import time
from dataclasses import asdict, dataclass

from bench.errors import BenchFailed
from bench.parts import serving
from bench.results import Goal, Result, Table
from bench.scoring import EVENT, PATH
from bench.section import Run
from bench.wrk import Loaded, Question, load, require_wrk
from headrace.embedded_servers.ports import HOST

CALM = (8, 32, 64)
TIMES = 10
VISITS_AN_HOUR = 10
WARM_UP_SECONDS, LOOK_SECONDS, PATIENCE_SECONDS = 2, 1, 60.0
GOODPUT, RECOVERY_SECONDS = 0.9, 10.0
NOTE = (
    "One server process and wrk share the machine; the model is 100 trees of LightGBM on ten features from memory. "
    "Each connection asks again as soon as it is answered; one that was told 429 is not read for a second. P50 and P99 "
    "are those of all answers, refusals included. Well again is the end of the first second in which {calm} "
    "connections have {goodput:.0%} of their calm rate and nobody is refused."
)


@dataclass(frozen=True)
class Size:
    """The size of the measurement."""

    cards: int
    calm_seconds: int
    seconds: int


FULL, QUICK = Size(cards=5_000, calm_seconds=5, seconds=60), Size(cards=1_000, calm_seconds=1, seconds=3)


@dataclass(frozen=True)
class Endured:
    """A server's rates when calm, by connections, and during the overload, and its recovery time."""

    calm: dict[int, Loaded]
    overload: Loaded
    seconds: float
    well_after_seconds: float

    @property
    def peak(self) -> float:
        return max(one.scored_a_second for one in self.calm.values())

    @property
    def goodput(self) -> float:
        return self.overload.scored_a_second / self.peak


def measure(run: Run) -> Result:
    """Run the section."""
    require_wrk()
    size = QUICK if run.quick else FULL
    filling = ("--cards", str(size.cards), "--visits", str(VISITS_AN_HOUR), "--now", str(time.time_ns() // 1000))
    with serving(run.folder, "predict", *filling, str(run.folder)) as server:
        question = Question(f"http://{HOST}:{server.filled.port}{PATH}", EVENT)
        load(question, CALM[0], WARM_UP_SECONDS, size.cards)
        endured = _endured(run, question, size)
    return result(endured)


def _endured(run: Run, question: Question, size: Size) -> Endured:
    calm = {}
    for connections in CALM:
        run.say(f"calm, {connections} connections")
        calm[connections] = load(question, connections, size.calm_seconds, size.cards)
    connections = TIMES * CALM[-1]
    run.say(f"{connections} connections for {size.seconds:g} s")
    overload = load(question, connections, size.seconds, size.cards)
    run.say("until it is well again")
    return Endured(calm, overload, size.seconds, _well_after(question, calm[CALM[0]], size.cards))


def _well_after(question: Question, calm: Loaded, cards: int) -> float:
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        now = load(question, CALM[0], LOOK_SECONDS, cards)
        if not now.refused and now.scored_a_second >= GOODPUT * calm.scored_a_second:
            return time.monotonic() - began
    raise BenchFailed(f"The server was not well {PATIENCE_SECONDS:g} s after the overload.")


def result(found: Endured) -> Result:
    """The section's table, goals and figures."""
    named = {f"calm, {connections} connections": one for connections, one in found.calm.items()}
    named[f"overload, {TIMES * CALM[-1]} connections, {found.seconds:g} s"] = found.overload
    well = found.well_after_seconds
    return Result(
        section="overload",
        table=Table(
            ["", "scores/s", "of the peak", "told 429", "P50", "P99"],
            [[name, *_cells(one, found.peak)] for name, one in named.items()],
        ),
        figures={**asdict(found), "peak": found.peak, "goodput": found.goodput},
        goals=[
            Goal(f"goodput at least {GOODPUT:.0%} of the peak", f"{found.goodput:.0%}", found.goodput >= GOODPUT),
            Goal(f"well again within {RECOVERY_SECONDS:g} s", f"{well:.1f} s", well <= RECOVERY_SECONDS),
        ],
        notes=[NOTE.format(calm=CALM[0], goodput=GOODPUT)],
    )


def _cells(one: Loaded, peak: float) -> list[str]:
    return [
        f"{one.scored_a_second:,.0f}",
        f"{one.scored_a_second / peak:.0%}",
        f"{one.share_refused:.1%}",
        f"{one.p50_ms:.2f} ms",
        f"{one.p99_ms:.2f} ms",
    ]
