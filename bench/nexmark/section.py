"""Section nexmark: every query by Headrace on Spark and by Flink, on the same topics, one at a time.

Each answer is compared with what DuckDB makes of the same events; a wrong one has no figure.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from bench.errors import BenchFailed, Skipped
from bench.nexmark import engines, whole
from bench.nexmark.catalogue import QUERIES, Query
from bench.nexmark.drains import Contender, Drained, Full
from bench.nexmark.engines import Engine
from bench.nexmark.generate import Shape
from bench.nexmark.live import RATE, Asked, Pace, by_count, by_number, delays_ms
from bench.peers.flink.setup import FLINK
from bench.percentiles import Spread
from bench.results import Goal, Result, Table
from bench.section import Run
from headrace.embedded_servers.broker import EmbeddedBroker

MICRO_BATCH, REAL_TIME, APP, PEER = "micro-batch", "real-time", "app", "Flink"
CONTENDERS = (MICRO_BATCH, REAL_TIME, APP, PEER)
AS_AN_APP = ("q1", "q12")  # a derived stream, and an operator
LIVE = ("q0", "q1", "q2", "q12")
WARM_UP = QUERIES["q1"]
NOTE = (
    "{events:,} events, {rate:,} a second of event time, in topics of two partitions. events/s: those a query reads, "
    "from its start in a warm process to the end of its answer in another topic. Every answer was compared with "
    "DuckDB's. Headrace: the same functions in micro-batches, and in real time where that lane runs them, straight "
    "from the topics as Flink reads them; app: some as declared streams of an app, process and gate included. Flink "
    "{flink}: its SQL with Nexmark's own settings, two tasks, RocksDB. More than 1 ×: our better lane is quicker."
)
LIVE_NOTE = (
    "At {rate} events/s, from the moment a bid happens until the log has taken the answer to it; q12 counts at each."
)
ONLY = "NEXMARK"  # a variable that names the queries of a short run: NEXMARK=q0,q5


@dataclass(frozen=True)
class Size:
    """How many events are drained, how many a second of their time, and how long answers are waited for."""

    events: int
    shape: Shape
    pace: Pace


FULL = Size(100_000, Shape(rate=1_000, group=16), Pace(warm_up=4, measured=6))
QUICK = Size(20_000, Shape(rate=200, group=16), Pace(warm_up=4, measured=4))

Answers = Mapping[str, Mapping[str, Drained]]
Delays = Mapping[str, Mapping[str, Spread | str]]


@dataclass(frozen=True)
class Found:
    """What was found: by query and contender, how long answers took, or why there is none."""

    read: Mapping[str, int]
    drained: Answers
    delays: Delays
    without: str = ""


def measure(run: Run) -> Result:
    """Run the section."""
    size = QUICK if run.quick else FULL
    with EmbeddedBroker(run.folder / "state", port=0) as broker, ExitStack() as stack:
        run.say(f"filling the topics with {size.events:,} events")
        full = Full.of(broker.address, size.events, size.shape)
        contenders, without = _contenders(run, broker.address, stack)
        for engine in dict.fromkeys(one.engine for one in contenders):
            run.say(f"warming {engine.program.name} up")
            Contender(f"{engine.program.name}-warm", engine).answer(full, WARM_UP)
        drained = {query.name: _answered(run, full, query, contenders) for query in _in_order()}
        delays = {
            query: _delays(run, broker.address, query, contenders, size.pace) for query in LIVE if query in _chosen()
        }
        found = Found({name: full.read_by(query) for name, query in QUERIES.items()}, drained, delays, without)
    return result(found, size)


def _contenders(run: Run, broker: str, stack: ExitStack) -> tuple[list[Contender], str]:
    """Both lanes of ours, and Flink; why it is not there where it cannot be."""
    ours = stack.enter_context(Engine(engines.ours(broker, run.folder)))
    here = [Contender(MICRO_BATCH, ours), Contender(REAL_TIME, ours, in_real_time=True)]
    try:
        run.say("setting Flink up")
        flink = stack.enter_context(Engine(engines.flink(broker, run.folder)))
    except Skipped as why:
        run.say(f"Flink is left out: {why}")
        return here, str(why)
    return [*here, Contender(PEER, flink)], ""


def _in_order() -> list[Query]:
    """What reads another query's answer comes after it."""
    return sorted(_chosen().values(), key=lambda query: "winning" in query.reads)


def _chosen() -> dict[str, Query]:
    named = os.environ.get(ONLY)
    if named and (unknown := set(named.split(",")) - set(QUERIES)):
        raise BenchFailed(f"{ONLY}={named}: there is no query {min(unknown)}. There are {', '.join(QUERIES)}.")
    return {name: QUERIES[name] for name in named.split(",")} if named else QUERIES


def _answered(run: Run, full: Full, query: Query, contenders: Sequence[Contender]) -> dict[str, Drained]:
    able = [one for one in contenders if query.real_time or not one.in_real_time]
    found = {one.name: one.answer(full, query) for one in able}
    if query.name in AS_AN_APP:
        found[APP] = whole.answer(full, query, run.folder)
    run.say(f"{query.name}: {', '.join(f'{name} {_seconds(one)}' for name, one in found.items())}")
    return found


def _seconds(one: Drained) -> str:
    if one.seconds is None:
        return f"failed ({one.wrong})"
    return f"{one.seconds:.1f} s" + (f", WRONG: {one.wrong}" if one.wrong else "")


def _delays(run: Run, broker: str, query: str, contenders: Sequence[Contender], pace: Pace) -> dict[str, Spread | str]:
    found: dict[str, Spread | str] = {}
    for one in contenders:
        try:
            found[one.name] = delays_ms(broker, _asked(one, query), pace, f"live.{query}.{one.name}")
        except BenchFailed as why:
            found[one.name] = str(why)
        run.say(f"{query} live, {one.name}: {_ms(found[one.name])}")
    return found


def _asked(one: Contender, query: str) -> Asked:
    """Flink says at each bid what it would otherwise say when a window ends by another query."""
    answers = by_count if query == "q12" else by_number
    if one.name == PEER:
        return Asked(one.engine, "q12-at-once" if query == "q12" else query, None, answers)
    return Asked(one.engine, query, one.name, answers)


def _ms(found: Spread | str) -> str:
    return found if isinstance(found, str) else f"P50 {found.p50:.0f} ms, P99 {found.p99:.0f} ms of {found.count}"


def result(found: Found, size: Size) -> Result:
    """The section's tables, goal and figures."""
    wrong = [f"{query} {name}" for query, by in found.drained.items() for name, one in by.items() if one.wrong]
    total = sum(map(len, found.drained.values()))
    version = found.without or FLINK.version()
    note = NOTE.format(events=size.events, rate=size.shape.rate, flink=version)
    live = f"{LIVE_NOTE.format(rate=RATE)}\n\n{_live_table(found.delays).markdown()}\n"
    without = [f"**Flink was left out: {found.without}**"] if found.without else []
    return Result(
        section="nexmark",
        table=_table(found),
        figures=asdict(found),
        goals=[Goal("every answer is DuckDB's", ", ".join(wrong) or f"{total} of {total}", not wrong)],
        notes=[note, "", live, *without],
    )


def _table(found: Found) -> Table:
    names = sorted(found.drained, key=lambda name: int(name[1:]))
    rows = [[name, *(_rate(found, name, one) for one in CONTENDERS), _times(found, name)] for name in names]
    return Table(["events/s", *CONTENDERS, "Headrace / Flink"], rows)


def rate(found: Found, query: str, contender: str) -> float | None:
    """Events a second; what reads q9's answer has waited for that first, where the answer is our own."""
    seconds = [_right(found, query, contender)]
    if "winning" in QUERIES[query].reads and contender != PEER:
        seconds.append(_right(found, "q9", contender))
    known = [one for one in seconds if one is not None]
    return found.read[query] / sum(known) if len(known) == len(seconds) else None


def _right(found: Found, query: str, contender: str) -> float | None:
    one = found.drained[query].get(contender)
    return None if one is None or one.wrong else one.seconds


def _rate(found: Found, query: str, contender: str) -> str:
    one = found.drained[query].get(contender)
    if one is None:
        return ""
    value = rate(found, query, contender)
    return f"{value:,.0f}" if value is not None else "failed" if one.seconds is None else "WRONG"


def _times(found: Found, query: str) -> str:
    """How many times as quick our better lane is."""
    ours = [value for lane in (MICRO_BATCH, REAL_TIME) if (value := rate(found, query, lane)) is not None]
    theirs = rate(found, query, PEER)
    return f"{max(ours) / theirs:.2f} ×" if ours and theirs else ""


def _live_table(delays: Delays) -> Table:
    rows = [
        [f"{query}, {name}", *_cells(spread)] for query, by_name in delays.items() for name, spread in by_name.items()
    ]
    return Table(["bid to answer", "P50", "P90", "P99", "answers"], rows)


def _cells(spread: Spread | str) -> list[str]:
    if isinstance(spread, str):
        return ["failed", "", "", ""]
    return [*(f"{value:,.0f} ms" for value in (spread.p50, spread.p90, spread.p99)), str(spread.count)]
