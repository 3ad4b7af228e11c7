"""A Delta table: rows appended or merged, with the offsets as application transactions of the same commit."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError

from headrace.connectors.sinks.schema_evolution import missing_columns
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.writer import (
    OffsetMoves,
    RowsRejected,
    SinkConfig,
    SinkWriter,
    TargetUnavailable,
    require_not_fenced,
)
from headrace.declare.sinks.sink import OFFSET, PARTITION, Sink
from headrace.declare.sinks.targets import Delta
from headrace.declare.streams.table_files import ARROW_TYPES
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.record import Partition
from headrace.lake.formats.delta import TABLE_PROPERTIES

COMMITS_PER_COMPACTION = 100  # each commit adds a file; compaction merges them
RAW_OFFSET_SUFFIX = "/raw"


class DeltaWriter(SinkWriter):
    """Writes to the table of one folder; each write is a commit, so rows are collected for a second."""

    max_rows: ClassVar[int] = 50_000
    linger_s: ClassVar[float] = 1.0
    stores_offsets: ClassVar[bool] = True

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        target: Delta = sink.to  # type: ignore[assignment]  # its class selects this writer
        self._folder = Path(target.folder).resolve()
        self._cached_table: DeltaTable | None = None
        self._commit_count = 0

    def open(self) -> None:
        try:
            self._open_table().update_incremental()
        except (DeltaError, OSError) as failure:
            raise self._to_unavailable(failure) from failure

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        self.open()
        return self._stored_offsets(partitions)

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        if not rows and not moves:
            return
        new_rows = self._to_arrow_table(self.deduplicate_rows(rows))
        self.open()
        if moves:
            require_not_fenced(moves, self._stored_offsets(moves), self.sink)
        try:
            self._commit(new_rows, CommitProperties(app_transactions=self._app_transactions(moves or {})))
        except CommitFailedError as failure:
            self._cached_table = None
            if moves:
                require_not_fenced(moves, self.read_offsets(moves), self.sink)
            raise self._to_unavailable(failure) from failure
        except (DeltaError, OSError) as failure:
            self._cached_table = None
            raise self._to_unavailable(failure) from failure

    def _commit(self, new_rows: pa.Table, properties: CommitProperties) -> None:
        table = self._open_table()
        if self.sink.key and new_rows.num_rows:
            self._merge(table, new_rows, properties)
        else:
            # With "merge", columns that the stream no longer has are null.
            write_deltalake(table, new_rows, mode="append", schema_mode="merge", commit_properties=properties)
        self._commit_count += 1
        if self._commit_count % COMMITS_PER_COMPACTION == 0:
            table.update_incremental()
            table.optimize.compact(max_concurrent_tasks=1)

    def _merge(self, table: DeltaTable, new_rows: pa.Table, properties: CommitProperties) -> None:
        key_predicate = " AND ".join(f'target."{name}" = source."{name}"' for name in self.sink.key)
        merger = table.merge(
            new_rows, key_predicate, source_alias="source", target_alias="target", commit_properties=properties
        )
        if self.sink.conflict_policy == "last":
            merger = merger.when_matched_update_all(
                f"target.{PARTITION} <> source.{PARTITION} OR target.{OFFSET} < source.{OFFSET}"
            )
        merger.when_not_matched_insert_all().execute()

    def _open_table(self) -> DeltaTable:
        """The table: created if missing, with new columns added; rejects a table whose columns differ."""
        if self._cached_table is None:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            expected_schema = self._table_schema()
            table = DeltaTable.create(
                self._folder, expected_schema, mode="ignore", configuration=dict(TABLE_PROPERTIES)
            )
            added_columns = missing_columns(
                expected_schema, pa.schema(table.schema()), f"the table in {str(self._folder)!r}", self.sink
            )
            if added_columns:
                table.alter.add_columns(DeltaSchema.from_arrow(pa.schema(added_columns)).fields)
            self._cached_table = table
        return self._cached_table

    def _table_schema(self) -> pa.Schema:
        declared_columns = [(column.name, ARROW_TYPES[column.type]) for column in self.sink.schema]
        return pa.schema([*declared_columns, (PARTITION, pa.int32()), (OFFSET, pa.int64())])

    def _to_arrow_table(self, rows: Sequence[SinkRow]) -> pa.Table:
        records = [row.values | {PARTITION: row.partition, OFFSET: row.offset} for row in rows]
        try:
            return pa.Table.from_pylist(records, self._table_schema())
        except (pa.ArrowException, OverflowError) as error:
            raise RowsRejected(f"rejected: {error}") from error

    def _stored_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        return {
            partition: ExternalOffset(
                self._transaction_version(self._application_id(partition)),
                self._transaction_version(self._application_id(partition) + RAW_OFFSET_SUFFIX),
            )
            for partition in partitions
        }

    def _transaction_version(self, application_id: str) -> int:
        version = self._open_table().transaction_version(application_id)
        return -1 if version is None else version

    def _app_transactions(self, moves: OffsetMoves) -> list[Transaction]:
        return [
            Transaction(application_id, version)
            for partition, move in moves.items()
            for application_id, version in zip(
                (self._application_id(partition), self._application_id(partition) + RAW_OFFSET_SUFFIX),
                move.after,
                strict=True,
            )
        ]

    def _application_id(self, partition: Partition) -> str:
        return f"headrace:{self.sink.slug}:{partition.topic}/{partition.number}"

    def _to_unavailable(self, failure: Any) -> TargetUnavailable:
        return TargetUnavailable(
            f"{self.sink.name}: the Delta table in {str(self._folder)!r} does not take rows: {failure}."
        )
