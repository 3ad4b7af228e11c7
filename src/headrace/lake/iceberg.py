"""A table in Iceberg: a catalogue names its newest metadata, which names its files.

Positions are properties of the table. Every commit that moves them adds a snapshot, were it an empty one, and so fails
where another came first: it is tried again on the newer table if nobody has moved them, and refused if somebody has.
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
from headrace.lake.catalogue import MADE_ONCE, SHORT_HISTORY, catalogue_of, locked
from headrace.lake.formats import CATALOGUE
from headrace.lake.iceberg_care import compacted, first_snapshot, grouped, unneeded
from headrace.lake.iceberg_expressions import BELOW, BOTH, EITHER, EQUALS
from headrace.lake.iceberg_files import data_file, day_in, path_of
from headrace.lake.landing import DAY, OFFSET, PARTITION
from headrace.lake.logs import LakeFile, LakeTableMissing, TableLog, UnreadableTable
from headrace.lake.shapes import plain, widened

TRIES = 10
PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "50",
    **MADE_ONCE,
    **SHORT_HISTORY,
}


class MovedMeanwhile(HeadraceError):
    """Somebody else lands in the same table."""

    def __init__(self, folder: Path, name: str, found: int) -> None:
        super().__init__(
            f"Somebody else has landed in the table at {str(folder)!r}: {name.removeprefix('headrace:')} is at {found} "
            "there. Let one process land in a lake."
        )


class IcebergLog(TableLog):
    """The snapshots of a table."""

    marker: ClassVar[str] = "metadata"
    _own: Table | None = None

    def columns(self) -> pa.Schema | None:
        found = self._found()
        return None if found is None else plain(found.schema().as_arrow())

    def fitted(self, columns: pa.Schema) -> pa.Schema:
        return widened(columns)

    def make(self, columns: pa.Schema) -> None:
        self._make_once(columns, by_day=True)
        with self._locked():
            self.refresh()
            known = {field.name for field in self._table.schema().fields}
            if any(field.name not in known for field in columns):
                with self._table.update_schema() as update:
                    update.union_by_name(columns)

    def _make_once(self, columns: pa.Schema, *, by_day: bool) -> None:
        """Make the table, unless it is there or somebody else makes it at the same moment."""
        if self._found() is None:
            with self._locked():
                if self._found() is None:
                    self._create(columns, by_day=by_day)

    def _locked(self) -> AbstractContextManager[None]:
        """Alone among all who make tables of this lake; not entered again within itself."""
        return locked(self.folder.parents[1])

    def _create(self, columns: pa.Schema, *, by_day: bool) -> None:
        self._catalogue.create_namespace_if_not_exists(self._name[0])
        properties = PROPERTIES | {"write.data.path": str(self.folder)}
        making = self._catalogue.create_table_transaction(
            self._name, columns, location=str(self.folder), properties=properties
        )
        names = making.table_metadata.schema().name_mapping.model_dump_json()
        with making as begun:
            begun.set_properties({"schema.name-mapping.default": names})  # Spark's files know columns by their names
            if by_day:
                with begun.update_spec() as spec:
                    spec.add_identity(DAY)
        self._own = self._catalogue.load_table(self._name)

    def refresh(self) -> None:
        self._table.refresh()

    def place(self, name: str) -> int:
        return _place(self._table.metadata, name)

    def add(self, files: Sequence[Path], places: Mapping[str, int]) -> None:
        before = {name: self.place(name) for name in places}

        def change(known: TableMetadata, begun: Transaction) -> None:
            for name, place in before.items():
                if (found := _place(known, name)) != place:
                    raise MovedMeanwhile(self.folder, name, found)
            begun.set_properties({name: str(place) for name, place in places.items()})
            with begun.update_snapshot().merge_append() as append:
                for file in files:
                    append.append_data_file(data_file(file, known))

        self._commit(change)

    def append(self, rows: pa.Table) -> None:
        self._make_once(widened(rows.schema), by_day=False)
        self._commit(lambda _, begun: begun.append(rows.cast(widened(rows.schema))))

    def files(self) -> list[LakeFile]:
        return [LakeFile(path_of(file), day_in(file), file.file_size_in_bytes) for file in self._data_files()]

    def _data_files(self) -> list[DataFile]:
        tasks = list(self._table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise UnreadableTable(
                "another writer has deleted rows of its files, which are read whole here. Let it write those files anew"
            )
        return [task.file for task in tasks]

    @property
    def partitioned_by(self) -> list[str]:
        return [field.name for field in self._table.spec().fields]

    @property
    def identity(self) -> str:
        return str(self._table.metadata.table_uuid)

    def commits(self, since: int) -> list[int]:
        found = self._found()
        if found is None:
            return []
        found.refresh()
        numbers = [_number(snapshot) for snapshot in found.snapshots()]
        return sorted(number for number in numbers if number >= since)

    def added(self, commit: int) -> list[Path]:
        table = self._table
        snapshot = next(one for one in table.snapshots() if _number(one) == commit)
        if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
            return []
        return [
            path_of(entry.data_file)
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        ]

    def forget_before(self, first_kept: date) -> None:
        old = [file for file in self._data_files() if (day := day_in(file)) is not None and day < first_kept]
        self._replace(old, [])

    def forget_offsets(self, before: Mapping[int, int]) -> None:
        each = [BOTH(EQUALS(PARTITION, number), BELOW(OFFSET, offset)) for number, offset in before.items()]
        self._commit(lambda _, begun: begun.delete(reduce(EITHER, each)))

    def compact(self, day: date, small_bytes: int) -> None:
        small = [file for file in self._data_files() if day_in(file) == day and file.file_size_in_bytes < small_bytes]
        for group in grouped(small, 2 * small_bytes):
            self._replace(group, [compacted([path_of(file) for file in group], self.columns())])

    def _replace(self, old: Sequence[DataFile], new: Sequence[Path]) -> None:
        for file in old:
            path_of(file).touch()  # deleted by its age: it counts from now, for whoever reads it still

        def change(known: TableMetadata, begun: Transaction) -> None:
            with begun.update_snapshot().overwrite() as overwrite:
                for file in old:
                    overwrite.delete_data_file(file)
                for path in new:
                    overwrite.append_data_file(data_file(path, known))

        self._commit(change)

    def vacuum(self, kept_hours: int) -> None:
        first_kept = first_snapshot(self._table, kept_hours)
        if first_kept is not None:
            self._table.maintenance.expire_snapshots().older_than(first_kept).commit()
            self.refresh()
        for file in unneeded(self._table, self.folder, kept_hours):
            file.unlink(missing_ok=True)

    def _commit(self, change: Callable[[TableMetadata, Transaction], None]) -> None:
        """Make a change of the newest table, again if another commit came first."""
        for tries_left in reversed(range(TRIES)):
            newest = self._catalogue.load_table(self._name)
            begun = newest.transaction()
            change(newest.metadata, begun)  # which a transaction would copy whenever it is asked for it
            try:
                self._own = begun.commit_transaction()
            except CommitFailedException:
                if not tries_left:
                    raise
            else:
                return

    @property
    def _name(self) -> tuple[str, str]:
        return self.folder.parent.name, self.folder.name

    @cached_property
    def _catalogue(self) -> Catalog:
        return catalogue_of(self.folder.parents[1] / CATALOGUE)

    @property
    def _table(self) -> Table:
        found = self._found()
        if found is None:
            raise LakeTableMissing(self.folder)
        return found

    def _found(self) -> Table | None:
        if self._own is None:
            try:
                self._own = self._catalogue.load_table(self._name)
            except NoSuchTableError:
                return None
        return self._own


def _place(table: TableMetadata, name: str) -> int:
    return int(table.properties.get(name, -1))


def _number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0
