"""A table in Delta: its log is a folder of numbered commits beside the files.

Positions are application transactions of a commit: Delta refuses one that has moved since the table was looked at.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction

from headrace.lake.files import count_nulls, statistics
from headrace.lake.landing import DAY, OFFSET, PARTITION
from headrace.lake.logs import LakeFile, LakeTableMissing, TableLog, UnreadableTable

NEWEST_READER = 1  # a table that asks more of its readers may hide rows in ways that are not looked for here
# A commit every few seconds: older log files than this go whenever a checkpoint of the log is written.
CONFIGURATION: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
SKIPPED_BY = "delta.dataSkippingStatsColumns"


class DeltaLog(TableLog):
    """The Delta log of a table."""

    marker: ClassVar[str] = "_delta_log"
    _own: DeltaTable | None = None

    def columns(self) -> pa.Schema | None:
        found = self._found()
        return None if found is None else pa.schema(found.schema())

    def fitted(self, columns: pa.Schema) -> pa.Schema:
        return columns

    def make(self, columns: pa.Schema) -> None:
        schema = Schema.from_arrow(columns)
        skipped_by = {SKIPPED_BY: _columns_to_skip_by(columns)}
        configuration: dict[str, str | None] = {**CONFIGURATION, **skipped_by}
        table = DeltaTable.create(self.folder, schema, mode="ignore", partition_by=[DAY], configuration=configuration)
        known = {field.name for field in table.schema().fields}
        new = [field for field in schema.fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            table.update_incremental()
        if table.metadata().configuration.get(SKIPPED_BY) != skipped_by[SKIPPED_BY]:
            table.alter.set_table_properties(skipped_by)
            table.update_incremental()
        self._own = table

    def refresh(self) -> None:
        self._table.update_incremental()

    def place(self, name: str) -> int:
        last = self._table.transaction_version(name)
        return -1 if last is None else last

    def add(self, files: Sequence[Path], places: Mapping[str, int]) -> None:
        self._table.create_write_transaction(
            [_entry(file, self.folder) for file in files],
            "append",
            self._table.schema(),
            [DAY],
            commit_properties=CommitProperties(app_transactions=[Transaction(*place) for place in places.items()]),
        )
        self._table.update_incremental()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.folder, rows, mode="append")

    def files(self) -> list[LakeFile]:
        asked = self._table.protocol().min_reader_version
        if asked > NEWEST_READER:
            raise UnreadableTable(f"it asks for readers of version {asked}, and this one is of {NEWEST_READER}")
        entries = pa.table(self._table.get_add_actions(flatten=True))
        days = f"partition.{DAY}"
        of_days = entries[days].to_pylist() if days in entries.column_names else [None] * entries.num_rows
        listed = zip(entries["path"].to_pylist(), of_days, entries["size_bytes"].to_pylist(), strict=True)
        return [LakeFile(self.folder / path, day, size) for path, day, size in listed]

    @property
    def partitioned_by(self) -> list[str]:
        return list(self._table.metadata().partition_columns)

    @property
    def identity(self) -> str:
        return str(self._table.metadata().id)

    def commits(self, since: int) -> list[int]:
        numbers = [int(file.stem) for file in (self.folder / self.marker).glob("*.json") if file.stem.isdigit()]
        return sorted(number for number in numbers if number >= since)

    def added(self, commit: int) -> list[Path]:
        return [self.folder / path for path in _news(self.folder / self.marker / f"{commit:020d}.json")]

    def forget_before(self, first_kept: date) -> None:
        self._table.delete(f"{DAY} < '{first_kept.isoformat()}'")

    def forget_offsets(self, before: Mapping[int, int]) -> None:
        each = (f"({PARTITION} = {number} AND {OFFSET} < {offset})" for number, offset in before.items())
        self._table.delete(" OR ".join(each))

    def compact(self, day: date, small_bytes: int) -> None:
        # One task: the real-time queries need the other cores more.
        self._table.optimize.compact(
            partition_filters=[(DAY, "=", day.isoformat())], target_size=2 * small_bytes, max_concurrent_tasks=1
        )

    def vacuum(self, kept_hours: int) -> None:
        self._table.vacuum(retention_hours=kept_hours, dry_run=False, full=True)

    @property
    def _table(self) -> DeltaTable:
        found = self._found()
        if found is None:
            raise LakeTableMissing(self.folder)
        return found

    def _found(self) -> DeltaTable | None:
        if self._own is None:
            with suppress(TableNotFoundError):
                self._own = DeltaTable(self.folder)
        return self._own


def _columns_to_skip_by(columns: pa.Schema) -> str:
    """The columns of which every file tells bounds.

    deltalake's datasets skip a file that tells none of a column they expect bounds of, whatever is asked of it.
    """
    names = [field.name for field in columns if field.name != DAY and _has_bounds(field.type)]
    return ",".join(name for name in names if name.isidentifier())


def _has_bounds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_string(kind))


def _entry(file: Path, folder: Path) -> AddAction:
    """The entry that adds a file to a table."""
    stat = file.stat()
    return AddAction(
        path=file.relative_to(folder).as_posix(),
        size=stat.st_size,
        partition_values={DAY: file.parent.name.removeprefix(f"{DAY}=")},
        modification_time=stat.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps(_statistics(file)),
    )


def _statistics(file: Path) -> dict[str, Any]:
    """What the footer of a file tells, and the nulls of texts too long for it.

    deltalake's datasets take a column with bounds for one without nulls where their number is not told.
    """
    told = statistics(pq.read_metadata(file))
    untold = told["minValues"].keys() - told["nullCount"].keys()
    return told | {"nullCount": told["nullCount"] | count_nulls(file, sorted(untold))}


def _news(commit: Path) -> Iterator[str]:
    """The files a commit has added rows with."""
    for line in commit.read_text().splitlines():
        action: dict[str, Any] = json.loads(line)
        if "add" in action and action["add"]["dataChange"]:
            yield unquote(action["add"]["path"])
