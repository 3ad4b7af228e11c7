"""A table in Iceberg: a catalogue names its newest metadata, which names its files.

Positions are properties of the table. Every commit that moves them adds a snapshot, if need be an empty one, so it
fails after a concurrent commit: it is retried on the newer table, and rejected if another process moved the positions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from functools import cached_property, reduce
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from headrace.errors import HeadraceError
from headrace.lake.formats.arrow_schemas import from_iceberg_schema, to_iceberg_schema
from headrace.lake.formats.iceberg_catalog import METADATA_RETENTION, NO_COMMIT_RETRIES, lock_folder, open_catalog
from headrace.lake.formats.iceberg_expressions import AND, EQUAL_TO, LESS_THAN, OR
from headrace.lake.formats.iceberg_files import data_file_day, data_file_path, to_data_file
from headrace.lake.formats.iceberg_maintenance import (
    compact_files,
    find_orphan_files,
    group_files,
    snapshot_expiry_time,
)
from headrace.lake.formats.registry import CATALOG_FILE
from headrace.lake.formats.table_format import LakeFile, LakeTableMissing, TableFormat, UnreadableTableError
from headrace.lake.ingestion.table_mapping import DAY, OFFSET, PARTITION

MAX_TRIES = 10
TABLE_PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "50",
    **NO_COMMIT_RETRIES,
    **METADATA_RETENTION,
}


class ConcurrentIngestError(HeadraceError):
    """Another process ingests into the same table."""

    def __init__(self, folder: Path, name: str, committed_offset: int) -> None:
        super().__init__(
            f"Another process has ingested into the table at {str(folder)!r}: {name.removeprefix('headrace:')} is at "
            f"{committed_offset} "
            "there. Run one ingesting process per lake."
        )


class IcebergFormat(TableFormat):
    """The snapshots of a table."""

    metadata_folder: ClassVar[str] = "metadata"
    _loaded_table: Table | None = None

    @classmethod
    def create_lake(cls, lake: Path) -> None:
        open_catalog(lake / CATALOG_FILE).close()

    def read_schema(self) -> pa.Schema | None:
        table = self._load_table()
        return None if table is None else from_iceberg_schema(table.schema().as_arrow())

    def to_storable_schema(self, schema: pa.Schema) -> pa.Schema:
        return to_iceberg_schema(schema)

    def ensure_table(self, schema: pa.Schema) -> None:
        self._create_if_missing(schema, by_day=True)
        with self._lock_lake():
            self.refresh()
            known_names = {field.name for field in self._table.schema().fields}
            if any(field.name not in known_names for field in schema):
                with self._table.update_schema() as update:
                    update.union_by_name(schema)

    def _create_if_missing(self, schema: pa.Schema, *, by_day: bool) -> None:
        """Create the table, unless it exists or another process creates it at the same time."""
        if self._load_table() is None:
            with self._lock_lake():
                if self._load_table() is None:
                    self._create(schema, by_day=by_day)

    def _lock_lake(self) -> AbstractContextManager[None]:
        """An exclusive lock for creating tables of this lake; not re-entrant."""
        return lock_folder(self.folder.parents[1])

    def _create(self, schema: pa.Schema, *, by_day: bool) -> None:
        self._catalog.create_namespace_if_not_exists(self._identifier[0])
        properties = TABLE_PROPERTIES | {"write.data.path": str(self.folder)}
        creation = self._catalog.create_table_transaction(
            self._identifier, schema, location=str(self.folder), properties=properties
        )
        name_mapping = creation.table_metadata.schema().name_mapping.model_dump_json()
        with creation as transaction:
            transaction.set_properties(
                {"schema.name-mapping.default": name_mapping}
            )  # Spark's files identify columns by name
            if by_day:
                with transaction.update_spec() as spec:
                    spec.add_identity(DAY)
        self._loaded_table = self._catalog.load_table(self._identifier)

    def refresh(self) -> None:
        self._table.refresh()

    def committed_position(self, name: str) -> int:
        return _committed_position(self._table.metadata, name)

    def commit_files(self, files: Sequence[Path], positions: Mapping[str, int]) -> None:
        expected_positions = {name: self.committed_position(name) for name in positions}

        def change(metadata: TableMetadata, transaction: Transaction) -> None:
            for name, position in expected_positions.items():
                if (committed := _committed_position(metadata, name)) != position:
                    raise ConcurrentIngestError(self.folder, name, committed)
            transaction.set_properties({name: str(place) for name, place in positions.items()})
            with transaction.update_snapshot().merge_append() as append:
                for file in files:
                    append.append_data_file(to_data_file(file, metadata))

        self._commit_with_retries(change)

    def append_rows(self, rows: pa.Table) -> None:
        self._create_if_missing(to_iceberg_schema(rows.schema), by_day=False)
        self._commit_with_retries(lambda _, transaction: transaction.append(rows.cast(to_iceberg_schema(rows.schema))))

    def list_files(self) -> list[LakeFile]:
        return [
            LakeFile(data_file_path(file), data_file_day(file), file.file_size_in_bytes)
            for file in self._list_data_files()
        ]

    def _list_data_files(self) -> list[DataFile]:
        tasks = list(self._table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise UnreadableTableError(
                "another writer has deleted rows of its files, which is not supported here. Let it rewrite those files"
            )
        return [task.file for task in tasks]

    @property
    def partition_columns(self) -> list[str]:
        return [field.name for field in self._table.spec().fields]

    @property
    def identity(self) -> str:
        return str(self._table.metadata.table_uuid)

    def list_commits(self, since: int) -> list[int]:
        table = self._load_table()
        if table is None:
            return []
        table.refresh()
        numbers = [_sequence_number(snapshot) for snapshot in table.snapshots()]
        return sorted(number for number in numbers if number >= since)

    def list_added_files(self, commit: int) -> list[Path]:
        table = self._table
        snapshot = next(candidate for candidate in table.snapshots() if _sequence_number(candidate) == commit)
        if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
            return []
        return [
            data_file_path(entry.data_file)
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        ]

    def delete_days_before(self, first_kept_day: date) -> None:
        old_files = [
            file
            for file in self._list_data_files()
            if (day := data_file_day(file)) is not None and day < first_kept_day
        ]
        self._replace_files(old_files, [])

    def delete_offsets_before(self, first_offsets: Mapping[int, int]) -> None:
        conditions = [
            AND(EQUAL_TO(PARTITION, partition), LESS_THAN(OFFSET, offset))
            for partition, offset in first_offsets.items()
        ]
        self._commit_with_retries(lambda _, transaction: transaction.delete(reduce(OR, conditions)))

    def compact(self, day: date, small_file_bytes: int) -> None:
        small_files = [
            file
            for file in self._list_data_files()
            if data_file_day(file) == day and file.file_size_in_bytes < small_file_bytes
        ]
        for group in group_files(small_files, 2 * small_file_bytes):
            self._replace_files(group, [compact_files([data_file_path(file) for file in group], self.read_schema())])

    def _replace_files(self, old_files: Sequence[DataFile], new_files: Sequence[Path]) -> None:
        for file in old_files:
            data_file_path(file).touch()  # vacuum deletes by age: its age starts now, for readers that still use it

        def change(metadata: TableMetadata, transaction: Transaction) -> None:
            with transaction.update_snapshot().overwrite() as overwrite:
                for file in old_files:
                    overwrite.delete_data_file(file)
                for path in new_files:
                    overwrite.append_data_file(to_data_file(path, metadata))

        self._commit_with_retries(change)

    def vacuum(self, retention_hours: int) -> None:
        expiry_time = snapshot_expiry_time(self._table, retention_hours)
        if expiry_time is not None:
            self._table.maintenance.expire_snapshots().older_than(expiry_time).commit()
            self.refresh()
        for file in find_orphan_files(self._table, self.folder, retention_hours):
            file.unlink(missing_ok=True)

    def _commit_with_retries(self, change: Callable[[TableMetadata, Transaction], None]) -> None:
        """Apply a change to the newest table, and retry after a concurrent commit."""
        for tries_left in reversed(range(MAX_TRIES)):
            table = self._catalog.load_table(self._identifier)
            transaction = table.transaction()
            change(table.metadata, transaction)  # each access to the transaction's own metadata copies it
            try:
                self._loaded_table = transaction.commit_transaction()
            except CommitFailedException:
                if not tries_left:
                    raise
            else:
                return

    @property
    def _identifier(self) -> tuple[str, str]:
        return self.folder.parent.name, self.folder.name

    @cached_property
    def _catalog(self) -> Catalog:
        return open_catalog(self.folder.parents[1] / CATALOG_FILE)

    @property
    def _table(self) -> Table:
        table = self._load_table()
        if table is None:
            raise LakeTableMissing(self.folder)
        return table

    def _load_table(self) -> Table | None:
        if self._loaded_table is None:
            try:
                self._loaded_table = self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return None
        return self._loaded_table


def _committed_position(metadata: TableMetadata, name: str) -> int:
    return int(metadata.properties.get(name, -1))


def _sequence_number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0
