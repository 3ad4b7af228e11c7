"""Section lake: a backlog through the gate, and into the lake, in one run.

raw topic full ▸ stream started ├ gate's first batch ────────── last clean record ┤
                                └────────── last commit of bronze ─── of silver ──┘
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from bench.app import payments
from bench.drain import LIMIT_SECONDS, draining, part, produced
from bench.parts import running
from bench.results import Goal, Result, Table
from bench.section import Run
from bench.topics import last_append_s
from bench.waiting import wait_for
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.lake.ingestion.table_mapping import TableMapping, bronze_mapping, silver_mapping

EVENTS = {"full": 1_000_000, "quick": 40_000}
KEEPS_UP = 0.9
NOTE = (
    "Gate and tiles in one Spark, the lake in another, at once on all cores, from new JVMs; each is timed from the "
    "gate's first batch to the last of the {events:,} records. The lake lands every second here, so that its end is "
    "not rounded to ten. Silver can be done no sooner than the gate that feeds it: 1.00 is a lake that keeps up."
)


@dataclass(frozen=True)
class Landed:
    """When each finished the backlog, in seconds from the gate's first batch."""

    gate_seconds: float
    bronze_seconds: float
    silver_seconds: float


def measure(run: Run) -> Result:
    """Run the section."""
    count = EVENTS["quick" if run.quick else "full"]
    with EmbeddedBroker(run.folder / "state", port=0) as broker:
        produced(run, broker.address, count)
        lake = run.folder / "lake"
        landing = part("lake", broker.address, run.folder / "stream", "--lake", str(lake), "--lake-every", "1s")
        with running(landing, run.folder / "lake.out"), draining(run, broker.address) as began_at:
            run.say("landing")
            done = [
                _done_at(lake, landing, count) - began_at
                for landing in (bronze_mapping(payments), silver_mapping(payments))
            ]
        landed = Landed(last_append_s(broker.address, payments.clean) - began_at, *done)
    return result(count, landed, [] if run.quick else [_kept_up(landed)])


def _done_at(lake: Path, landing: TableMapping, count: int) -> float:
    """The time at which a table had all records, in epoch seconds."""
    folder = lake / landing.table
    wait_for(lambda: rows_in(folder) >= count, LIMIT_SECONDS, f"{landing.topic} to land", 0.5)
    return float(DeltaTable(folder).history(1)[0]["timestamp"]) / 1000


def rows_in(folder: Path) -> int:
    """The number of rows of a table, from its log."""
    files = (
        pa.table(DeltaTable(folder).get_add_actions(flatten=True)) if DeltaTable.is_deltatable(str(folder)) else None
    )
    return pc.sum(files["num_records"]).as_py() or 0 if files else 0


def _kept_up(landed: Landed) -> Goal:
    found = landed.gate_seconds / landed.silver_seconds
    return Goal(f"silver lands at {KEEPS_UP:.0%} of the gate's rate at least", f"{found:.0%}", found >= KEEPS_UP)


def result(count: int, landed: Landed, goals: Sequence[Goal]) -> Result:
    """The section's table, figures and goals."""
    seconds = {"gate": landed.gate_seconds, "bronze": landed.bronze_seconds, "silver": landed.silver_seconds}
    rows = [
        [name, f"{took:.1f} s", f"{count / took:,.0f}", f"{landed.gate_seconds / took:.2f}"]
        for name, took in seconds.items()
    ]
    return Result(
        section="lake",
        table=Table([f"{count:,} events", "time", "events/s", "of the gate"], rows),
        figures={"count": count, **asdict(landed)},
        notes=[NOTE.format(events=count)],
        goals=goals,
    )
