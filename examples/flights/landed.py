"""Waits until a replay has landed in the lake, by the expected counts from the recordings."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from running import rows_in, wait_for
from truth import is_clean

from headrace.declare.models.model import Model
from headrace.declare.streams.stream import Stream
from headrace.kafka.offsets import OffsetClient


def before(rows: pa.Table, column: str, end: datetime) -> pa.Table:
    """The rows whose time is before `end`."""
    return rows.filter(pc.less(rows[column], pa.scalar(end)))


def from_(rows: pa.Table, column: str, begin: datetime) -> pa.Table:
    """The rows whose time is `begin` or later."""
    return rows.filter(pc.greater_equal(rows[column], pa.scalar(begin)))


def between(rows: pa.Table, column: str, begin: datetime, end: datetime) -> pa.Table:
    """The rows whose time is in [begin, end)."""
    return before(from_(rows, column, begin), column, end)


@dataclass(frozen=True)
class Lake:
    """The lake of a model whose streams are replayed; reports since `begin` get predictions."""

    folder: Path
    model: Model
    recordings: dict[str, pa.Table]
    begin: datetime

    @property
    def predictions(self) -> Path:
        return self.folder / "gold" / f"{self.model.name}_predictions"

    def table(self, *columns: str) -> pa.Table:
        """Predictions that have landed."""
        return DeltaTable(self.predictions).to_pyarrow_dataset().to_table(list(columns))

    def served(self, *columns: str) -> pa.Table:
        """The predictions of champions."""
        rows = from_(self.table(*columns, "role", "arrival"), "arrival", self.begin)
        return rows.filter(pc.equal(rows["role"], "champion"))

    def wait_until(self, end: datetime, streams: list[Stream]) -> None:
        """Wait until every clean event reported before a time has landed."""
        for stream in streams:
            sent = before(self.recordings[stream.name], "reported_at", end)
            wait_for(Landing(self.folder / "silver" / stream.name, int(is_clean(stream, sent).sum())), "the lake")

    def wait_until_scored(self, broker: str) -> None:
        """Wait until every prediction in the log has landed."""
        wait_for(
            Landing(self.predictions, sum(OffsetClient(broker).end_offset_list(self.model.predictions))),
            "the lake's predictions",
        )


@dataclass(frozen=True)
class Landing:
    """A condition: whether at least `rows` rows of a table have landed."""

    table: Path
    rows: int

    def __call__(self) -> bool:
        return rows_in(self.table) >= self.rows
