"""What of a replay has landed in the lake: waited for by the counts that the recordings tell."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from running import wait_for
from truth import is_clean, is_predicted

from headrace.declare.model import Model
from headrace.declare.stream import Stream

CHAMPION = ds.field("role") == "champion"


def before(rows: pa.Table, column: str, end: datetime) -> pa.Table:
    """Those rows whose time is before another."""
    return rows.filter(pc.less(rows[column], pa.scalar(end)))


def from_(rows: pa.Table, column: str, begin: datetime) -> pa.Table:
    """Those rows whose time is another, or after it."""
    return rows.filter(pc.greater_equal(rows[column], pa.scalar(begin)))


def between(rows: pa.Table, column: str, begin: datetime, end: datetime) -> pa.Table:
    """Those rows whose time is from one on, and before another."""
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

    def table(self, *columns: str, only: Any = None) -> pa.Table:
        """Predictions that have landed."""
        return DeltaTable(self.predictions).to_pyarrow_dataset().to_table(list(columns), filter=only)

    def served(self, *columns: str) -> pa.Table:
        """What champions have predicted."""
        return self.table(*columns, only=CHAMPION & (ds.field("arrival") >= pa.scalar(self.begin)))

    def wait_until(self, end: datetime, streams: list[Stream]) -> None:
        """Wait until every clean report that came before a time has landed."""
        for stream in streams:
            sent = before(self.recordings[stream.name], "reported_at", end)
            wait_for(Landing(self.folder / "silver" / stream.name, int(is_clean(stream, sent).sum())), "the lake")

    def wait_until_scored(self, end: datetime) -> None:
        """Wait until every prediction of reports before a time has landed."""
        predicted = between(self._predicted, "reported_at", self.begin, end).num_rows
        live = CHAMPION & (ds.field("arrival") >= pa.scalar(self.begin))
        wait_for(Landing(self.predictions, predicted, live), "the lake to have the predictions")

    @property
    def _predicted(self) -> pa.Table:
        departures = self.recordings[self.model.stream.name]
        return departures.filter(pa.array(is_predicted(self.model.stream, departures)))


@dataclass(frozen=True)
class Landing:
    """Whether so many rows of a table have landed."""

    table: Path
    rows: int
    which: Any = None

    def __call__(self) -> bool:
        if not self.rows:
            return True
        found = DeltaTable.is_deltatable(str(self.table))
        return found and DeltaTable(self.table).to_pyarrow_dataset().count_rows(filter=self.which) >= self.rows
