"""Section sql: queries over a million rows of the lake and over live tables, as a server runs them.

server's event loop   ▪ ▪ ▪ ▪ ▪▪▪▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪     its longest stall, which delays /features
process of queries            └─────────────┘        a nice'd child, one core
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from bench.app import CardSpend, payments
from bench.entities import Cards
from bench.errors import BenchFailed
from bench.percentiles import Spread
from bench.results import Goal, Result, Table
from bench.section import Run
from headrace.declare.app import App
from headrace.declare.features.view import require_view
from headrace.lake.ingestion.table_mapping import DAY, silver_mapping
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, tune_for_latency
from headrace.server.sql_route import MAX_LIVE_ENTITIES, LiveTableReader, SqlExecutor

ROWS = {"full": 1_000_000, "quick": 100_000}
CARDS, MERCHANTS, DAYS, FILES_A_DAY = 10_000, 500, 7, 5
TIMES = 50
TICK_SECONDS = 0.001
GOAL_MS = 200.0
OVER_ALL = ("by merchant", "top cards")
QUERIES = {
    "by merchant": "select merchant, count(*), sum(amount), max(amount) from silver.payments group by 1",
    "top cards": "select card, count(*), sum(amount) from silver.payments group by 1 order by 3 desc limit 10",
    "one card": "select hr_day, count(*), sum(amount) from silver.payments where card = 'c77' group by 1",
    "count": "select count(*) from silver.payments",
    "live": "select count(*), sum(payments_1h), max(spend_7d) from live.CardSpend",
}
NOTE = (
    "Of {rows:,} rows in {files} Parquet files of {days} days and {cards:,} cards, and of {live:,} live entities; from "
    "the server's question to its answer in JSON, each query {times} times. The process starts with the first of all. "
    "«First» is the first time that a query is asked, that by merchant first of all; the machine may have the files in "
    "its cache. A tick is how long the server's event loop stood still at most while a query was asked so often."
)


@dataclass(frozen=True)
class Asked:
    """A query's first and later durations in ms, and the longest stall of the event loop."""

    first_ms: float
    then: Spread
    tick_ms: float


def measure(run: Run) -> Result:
    """Run the section."""
    rows = ROWS["quick" if run.quick else "full"]
    run.say(f"writing {rows:,} rows")
    truth = make_lake(run.folder / "lake", rows)
    tune_for_latency()
    start_ms, found = asyncio.run(_measured(run, truth))
    return result(rows, start_ms, found, run.quick)


def make_lake(lake: Path, rows: int) -> dict[str, float]:
    """Write a silver table as Spark does; returns the total of each merchant."""
    chance, table = np.random.default_rng(7), LakeTable(lake, silver_mapping(payments))
    table.prepare()
    took, a_file = np.zeros(MERCHANTS), rows // (DAYS * FILES_A_DAY)
    sizes = [a_file + (number < rows - a_file * DAYS * FILES_A_DAY) for number in range(DAYS * FILES_A_DAY)]
    for number, size in enumerate(sizes):
        day = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number // FILES_A_DAY)
        merchants, amounts = chance.integers(0, MERCHANTS, size), np.round(chance.exponential(40, size), 2)
        took += np.bincount(merchants, amounts, MERCHANTS)
        at = day.timestamp() * 1e6 + np.sort(chance.integers(0, 86_400_000_000, size))
        columns = {
            "payment_id": pa.array([f"p{number}-{row}" for row in range(size)]),
            "card": pa.array([f"c{card}" for card in chance.integers(0, CARDS, size)]),
            "merchant": pa.array([f"m{merchant}" for merchant in merchants]),
            "amount": pa.array(amounts),
            "at": pa.array(at.astype(np.int64), pa.timestamp("us", "UTC")),
            "hr_arrival": pa.array(at.astype(np.int64), pa.timestamp("us", "UTC")),
            "hr_partition": pa.array(chance.integers(0, 4, size), pa.int32()),
            "hr_offset": pa.array(np.arange(size)),
        }
        file = table.folder / f"{DAY}={day.date()}" / f"{number}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), file)
        table.commit([file], {0: TablePosition(number, number)})
    return {f"m{merchant}": float(total) for merchant, total in enumerate(took)}


async def _measured(run: Run, truth: Mapping[str, float]) -> tuple[float, dict[str, Asked]]:
    view, store = require_view(CardSpend), MemoryStore([require_view(CardSpend)])
    for batch in Cards(time.time_ns() // 1000, 5).batches(CARDS):
        store.apply(batch)
    app = App("bench", (payments,), (view,))
    queries = SqlExecutor(run.folder / "lake", LiveTableReader(app, MemoryStoreReader(store, None), None))
    try:
        start_ms = (await _asked(queries, "select 1"))[0]
        found = {}
        for name, query in QUERIES.items():
            run.say(f"{name}: {query}")
            found[name] = await _many(queries, query)
        await _require_right(queries, truth)
    finally:
        queries.stop()
    return start_ms, found


async def _many(queries: SqlExecutor, query: str) -> Asked:
    longest, ticking = [0.0], asyncio.Event()
    ticks = asyncio.create_task(_ticks(longest, ticking))
    took = [(await _asked(queries, query))[0] for _ in range(TIMES + 1)]
    ticking.set()
    await ticks
    return Asked(took[0], Spread.of(took[1:]), longest[0])


async def _ticks(longest: list[float], over: asyncio.Event) -> None:
    """Records the longest stall of the event loop, in ms."""
    while not over.is_set():
        began = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        longest[0] = max(longest[0], (time.perf_counter() - began - TICK_SECONDS) * 1000)


async def _asked(queries: SqlExecutor, query: str) -> tuple[float, bytes]:
    began = time.perf_counter()
    answer = await queries.run_query(query, 1000)
    return (time.perf_counter() - began) * 1000, answer


async def _require_right(queries: SqlExecutor, truth: Mapping[str, float]) -> None:
    """Require correct results, without which a duration does not count."""
    _, answer = await _asked(queries, "select merchant, sum(amount) from silver.payments group by 1")
    found = dict(orjson.loads(answer)["rows"])
    if found.keys() != truth.keys() or any(abs(found[name] - truth[name]) > 1e-6 * truth[name] for name in truth):
        raise BenchFailed("The sums that SQL gives are not those of the rows that were written.")


def result(rows: int, start_ms: float, found: Mapping[str, Asked], quick: bool) -> Result:
    """The section's table, figures and goals."""
    worst = max(one.then.p50 for name, one in found.items() if name in OVER_ALL)
    first = max(one.first_ms for name, one in found.items() if name in OVER_ALL)
    lines = [["start", f"{start_ms:.0f} ms", "", "", ""]] + [
        [name, f"{one.first_ms:.0f} ms", f"{one.then.p50:.0f} ms", f"{one.then.p99:.0f} ms", f"{one.tick_ms:.0f} ms"]
        for name, one in found.items()
    ]
    goals = [
        Goal(f"groups of a million rows in {GOAL_MS:g} ms at P50", f"{worst:.0f} ms", worst < GOAL_MS),
        Goal(f"and in {GOAL_MS:g} ms the first time", f"{first:.0f} ms", first < GOAL_MS),
    ]
    note = NOTE.format(
        rows=rows, files=DAYS * FILES_A_DAY, days=DAYS, cards=CARDS, live=min(CARDS, MAX_LIVE_ENTITIES), times=TIMES
    )
    return Result(
        section="sql",
        table=Table(["query", "first", "P50", "P99", "longest tick"], lines),
        figures={"rows": rows, "start_ms": start_ms, **{name: asdict(one) for name, one in found.items()}},
        goals=[] if quick else goals,
        notes=[note, *(f"- {name}: `{query}`" for name, query in QUERIES.items())],
    )
