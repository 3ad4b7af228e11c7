"""A table in Delta: its log is a folder of numbered commits next to the files.

Positions are application transactions of a commit: Delta rejects a commit if one has moved since the table was read.
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

from headrace.lake.formats.parquet_files import count_nulls, delta_statistics
from headrace.lake.formats.table_format import LakeFile, LakeTableMissing, TableFormat, UnreadableTableError
from headrace.lake.ingestion.table_mapping import DAY, OFFSET, PARTITION

MAX_READER_VERSION = 1  # a table of a later version may hide rows in ways that this reader does not know
# With a commit every few seconds, writing a checkpoint of the log deletes log files that are older than this.
TABLE_PROPERTIES: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
DATA_SKIPPING_PROPERTY = "delta.dataSkippingStatsColumns"


class DeltaFormat(TableFormat):
    """The Delta log of a table."""

    metadata_folder: ClassVar[str] = "_delta_log"
    _loaded_table: DeltaTable | None = None

    def read_schema(self) -> pa.Schema | None:
        table = self._load_table()
        return None if table is None else pa.schema(table.schema())

    def to_storable_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema

    def ensure_table(self, schema: pa.Schema) -> None:
        delta_schema = Schema.from_arrow(schema)
        data_skipping = {DATA_SKIPPING_PROPERTY: _data_skipping_columns(schema)}
        properties: dict[str, str | None] = {**TABLE_PROPERTIES, **data_skipping}
        table = DeltaTable.create(
            self.folder, delta_schema, mode="ignore", partition_by=[DAY], configuration=properties
        )
        known_names = {field.name for field in table.schema().fields}
        new_fields = [field for field in delta_schema.fields if field.name not in known_names]
        if new_fields:
            table.alter.add_columns(new_fields)
            table.update_incremental()
        if table.metadata().configuration.get(DATA_SKIPPING_PROPERTY) != data_skipping[DATA_SKIPPING_PROPERTY]:
            table.alter.set_table_properties(data_skipping)
            table.update_incremental()
        self._loaded_table = table

    def refresh(self) -> None:
        self._table.update_incremental()

    def committed_position(self, name: str) -> int:
        version = self._table.transaction_version(name)
        return -1 if version is None else version

    def commit_files(self, files: Sequence[Path], positions: Mapping[str, int]) -> None:
        self._table.create_write_transaction(
            [_to_add_action(file, self.folder) for file in files],
            "append",
            self._table.schema(),
            [DAY],
            commit_properties=CommitProperties(
                app_transactions=[Transaction(*position) for position in positions.items()]
            ),
        )
        self._table.update_incremental()

    def append_rows(self, rows: pa.Table) -> None:
        write_deltalake(self.folder, rows, mode="append")

    def list_files(self) -> list[LakeFile]:
        required_version = self._table.protocol().min_reader_version
        if required_version > MAX_READER_VERSION:
            raise UnreadableTableError(
                f"it requires readers of version {required_version}, and this one has version {MAX_READER_VERSION}"
            )
        entries = pa.table(self._table.get_add_actions(flatten=True))
        days = f"partition.{DAY}"
        file_days = entries[days].to_pylist() if days in entries.column_names else [None] * entries.num_rows
        rows = zip(entries["path"].to_pylist(), file_days, entries["size_bytes"].to_pylist(), strict=True)
        return [LakeFile(self.folder / path, day, size) for path, day, size in rows]

    @property
    def partition_columns(self) -> list[str]:
        return list(self._table.metadata().partition_columns)

    @property
    def identity(self) -> str:
        return str(self._table.metadata().id)

    def list_commits(self, since: int) -> list[int]:
        numbers = [
            int(file.stem) for file in (self.folder / self.metadata_folder).glob("*.json") if file.stem.isdigit()
        ]
        return sorted(number for number in numbers if number >= since)

    def list_added_files(self, commit: int) -> list[Path]:
        return [
            self.folder / path for path in _read_added_paths(self.folder / self.metadata_folder / f"{commit:020d}.json")
        ]

    def delete_days_before(self, first_kept_day: date) -> None:
        self._table.delete(f"{DAY} < '{first_kept_day.isoformat()}'")

    def delete_offsets_before(self, first_offsets: Mapping[int, int]) -> None:
        conditions = (
            f"({PARTITION} = {partition} AND {OFFSET} < {offset})" for partition, offset in first_offsets.items()
        )
        self._table.delete(" OR ".join(conditions))

    def compact(self, day: date, small_file_bytes: int) -> None:
        # One task, to leave the other cores to the real-time queries.
        self._table.optimize.compact(
            partition_filters=[(DAY, "=", day.isoformat())], target_size=2 * small_file_bytes, max_concurrent_tasks=1
        )

    def vacuum(self, retention_hours: int) -> None:
        self._table.vacuum(retention_hours=retention_hours, dry_run=False, full=True)

    @property
    def _table(self) -> DeltaTable:
        table = self._load_table()
        if table is None:
            raise LakeTableMissing(self.folder)
        return table

    def _load_table(self) -> DeltaTable | None:
        if self._loaded_table is None:
            with suppress(TableNotFoundError):
                self._loaded_table = DeltaTable(self.folder)
        return self._loaded_table


def _data_skipping_columns(schema: pa.Schema) -> str:
    """The columns for which every file has bounds.

    deltalake's datasets skip a file that lacks expected bounds of a column, whatever the filter.
    """
    names = [field.name for field in schema if field.name != DAY and _has_bounds(field.type)]
    return ",".join(name for name in names if name.isidentifier())


def _has_bounds(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_timestamp(arrow_type) or pa.types.is_string(arrow_type))


def _to_add_action(file: Path, folder: Path) -> AddAction:
    """The entry that adds a file to a table."""
    stat = file.stat()
    return AddAction(
        path=file.relative_to(folder).as_posix(),
        size=stat.st_size,
        partition_values={DAY: file.parent.name.removeprefix(f"{DAY}=")},
        modification_time=stat.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps(_file_statistics(file)),
    )


def _file_statistics(file: Path) -> dict[str, Any]:
    """The statistics of a file's footer, and the null counts of texts that are too long for it.

    deltalake's datasets assume that a column with bounds has no nulls if their number is missing.
    """
    footer_statistics = delta_statistics(pq.read_metadata(file))
    uncounted = footer_statistics["minValues"].keys() - footer_statistics["nullCount"].keys()
    return footer_statistics | {"nullCount": footer_statistics["nullCount"] | count_nulls(file, sorted(uncounted))}


def _read_added_paths(commit_file: Path) -> Iterator[str]:
    """The files with rows that a commit has added."""
    for line in commit_file.read_text().splitlines():
        action: dict[str, Any] = json.loads(line)
        if "add" in action and action["add"]["dataChange"]:
            yield unquote(action["add"]["path"])
