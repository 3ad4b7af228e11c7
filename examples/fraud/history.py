"""The history before the demo: hours of payments as the lake stores them, with their labels.

lake/silver/payments     the payments that pass the gate, with duplicates
spine.parquet            each payment once: its arrival time, and whether its holder disputed it
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from payments import Event, Fate, Timeline, is_fraud

MOMENT = pa.timestamp("us", tz="UTC")
ROWS = pa.schema(
    {
        "payment_id": pa.string(),
        "card": pa.string(),
        "merchant": pa.string(),
        "country": pa.string(),
        "amount": pa.float64(),
        "at": MOMENT,
        "hr_arrival": MOMENT,
        "hr_partition": pa.int32(),
        "hr_offset": pa.int64(),
        "hr_day": pa.date32(),
    }
)
SPINE = pa.schema({"card": pa.string(), "at": MOMENT, "amount": pa.float64(), "fraud": pa.bool_()})


@dataclass(frozen=True)
class History:
    """The files of a training history."""

    folder: Path

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def spine(self) -> Path:
        return self.folder / "spine.parquet"


def write_history(folder: Path, timeline: Timeline, count: int) -> History:
    """Write the first payments of a timeline, and their labels."""
    passed = [event for event in map(timeline.event, range(count)) if event.fate in {Fate.CLEAN, Fate.DUPLICATE}]
    rows = [_row(event) for event in passed]
    # A model scores a payment when it arrives: the spine has its arrival time, so features are of that time.
    outcomes = [
        {
            "card": row["card"],
            "at": row["hr_arrival"],
            "amount": row["amount"],
            "fraud": is_fraud(timeline.seed, event.number),
        }
        for event, row in zip(passed, rows, strict=True)
        if event.fate is Fate.CLEAN
    ]
    history = History(folder)
    table = pa.Table.from_pylist(rows, ROWS)
    write_deltalake(history.lake / "silver" / "payments", table, partition_by=["hr_day"], mode="overwrite")
    pq.write_table(pa.Table.from_pylist(outcomes, SPINE), history.spine)
    return history


def _row(event: Event) -> dict[str, object]:
    """A clean payment as a row of the lake."""
    fields = orjson.loads(event.value)
    at = datetime.fromisoformat(fields["at"])
    arrival = datetime.fromtimestamp(event.moment_us / 1e6, UTC)
    lake_columns = {"hr_arrival": arrival, "hr_partition": 0, "hr_offset": event.number, "hr_day": at.date()}
    return {**fields, "at": at, **lake_columns}
