"""A Delta table: rows appended or merged, with the offsets as application transactions of the same commit."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError

from headrace.declare.sink import OFFSET, PARTITION, Sink
from headrace.declare.table_files import ARROW_TYPES
from headrace.declare.targets import Delta
from headrace.lake.delta import CONFIGURATION
from headrace.log.placed import Place, Places
from headrace.log.records import Partition
from headrace.sink.new_columns import missing_columns
from headrace.sink.rows import Row
from headrace.sink.writer import Away, Moves, Rejected, SinkPlace, Writer, require_unmoved

MANY_COMMITS = 100  # each leaves a file: after so many they are made one
RAW = "/raw"


class DeltaWriter(Writer):
    """Writes to the table of one folder; each write is a commit, so rows are gathered for a second."""

    most_rows: ClassVar[int] = 50_000
    linger_s: ClassVar[float] = 1.0
    keeps_places: ClassVar[bool] = True

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        target: Delta = sink.to  # type: ignore[assignment]  # chosen by it
        self._folder = Path(target.folder).resolve()
        self._own_table: DeltaTable | None = None
        self._commits = 0

    def open(self) -> None:
        try:
            self._table().update_incremental()
        except (DeltaError, OSError) as failure:
            raise self._away(failure) from failure

    def places(self, partitions: Iterable[Partition]) -> Places:
        self.open()
        return self._places(partitions)

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:
        if not rows and not moves:
            return
        frame = self._frame(self.distinct(rows))
        self.open()
        if moves:
            require_unmoved(moves, self._places(moves), self.sink)
        try:
            self._commit(frame, CommitProperties(app_transactions=self._transactions(moves or {})))
        except CommitFailedError as failure:
            self._own_table = None
            if moves:
                require_unmoved(moves, self.places(moves), self.sink)
            raise self._away(failure) from failure
        except (DeltaError, OSError) as failure:
            self._own_table = None
            raise self._away(failure) from failure

    def _commit(self, frame: pa.Table, properties: CommitProperties) -> None:
        table = self._table()
        if self.sink.key and frame.num_rows:
            self._merge(table, frame, properties)
        else:
            # Merged: columns that the stream has no more are null.
            write_deltalake(table, frame, mode="append", schema_mode="merge", commit_properties=properties)
        self._commits += 1
        if self._commits % MANY_COMMITS == 0:
            table.update_incremental()
            table.optimize.compact(max_concurrent_tasks=1)

    def _merge(self, table: DeltaTable, frame: pa.Table, properties: CommitProperties) -> None:
        same = " AND ".join(f'target."{name}" = source."{name}"' for name in self.sink.key)
        merging = table.merge(frame, same, source_alias="source", target_alias="target", commit_properties=properties)
        if self.sink.wins == "last":
            merging = merging.when_matched_update_all(
                f"target.{PARTITION} <> source.{PARTITION} OR target.{OFFSET} < source.{OFFSET}"
            )
        merging.when_not_matched_insert_all().execute()

    def _table(self) -> DeltaTable:
        """The table, made where it is missing, with columns that are new; one whose columns differ is not taken."""
        if self._own_table is None:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            wanted = self._schema()
            table = DeltaTable.create(self._folder, wanted, mode="ignore", configuration=dict(CONFIGURATION))
            added = missing_columns(wanted, pa.schema(table.schema()), f"the table in {str(self._folder)!r}", self.sink)
            if added:
                table.alter.add_columns(DeltaSchema.from_arrow(pa.schema(added)).fields)
            self._own_table = table
        return self._own_table

    def _schema(self) -> pa.Schema:
        own = [(column.name, ARROW_TYPES[column.type]) for column in self.sink.schema]
        return pa.schema([*own, (PARTITION, pa.int32()), (OFFSET, pa.int64())])

    def _frame(self, rows: Sequence[Row]) -> pa.Table:
        written = [row.values | {PARTITION: row.partition, OFFSET: row.offset} for row in rows]
        try:
            return pa.Table.from_pylist(written, self._schema())
        except (pa.ArrowException, OverflowError) as wrong:
            raise Rejected(f"rejected: {wrong}") from wrong

    def _places(self, partitions: Iterable[Partition]) -> Places:
        return {at: Place(self._version(self._name(at)), self._version(self._name(at) + RAW)) for at in partitions}

    def _version(self, name: str) -> int:
        found = self._table().transaction_version(name)
        return -1 if found is None else found

    def _transactions(self, moves: Moves) -> list[Transaction]:
        return [
            Transaction(name, place)
            for at, move in moves.items()
            for name, place in zip((self._name(at), self._name(at) + RAW), move.after, strict=True)
        ]

    def _name(self, at: Partition) -> str:
        return f"headrace:{self.sink.slug}:{at.topic}/{at.number}"

    def _away(self, failure: Any) -> Away:
        return Away(f"{self.sink.name}: the Delta table in {str(self._folder)!r} does not take rows: {failure}.")
