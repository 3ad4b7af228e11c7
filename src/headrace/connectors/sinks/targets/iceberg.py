"""An Iceberg table: rows appended or replaced, with the offsets as properties of the table, in the same commit."""

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table, Transaction
from sqlalchemy.exc import SQLAlchemyError

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
from headrace.declare.sinks.targets import Iceberg
from headrace.declare.streams.table_files import ARROW_TYPES
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.record import Partition
from headrace.lake.formats.arrow_schemas import from_iceberg_schema, to_iceberg_schema
from headrace.lake.formats.iceberg_catalog import METADATA_RETENTION, NO_COMMIT_RETRIES, lock_folder, open_catalog
from headrace.lake.formats.iceberg_expressions import AND, EQUAL_TO, IS_IN, OR

CATALOG_FILE = "catalogue.db"
UNAVAILABLE_ERRORS = (OSError, SQLAlchemyError, ValueError)


class IcebergWriter(SinkWriter):
    """Writes to one table of a folder's catalogue; each write is a commit, so rows are collected for a second."""

    max_rows: ClassVar[int] = 2_000
    linger_s: ClassVar[float] = 1.0
    stores_offsets: ClassVar[bool] = True

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        target: Iceberg = sink.to  # type: ignore[assignment]  # its class selects this writer
        self._folder, self._table_name = Path(target.folder).resolve(), target.identifier
        self._cached_table: Table | None = None

    def open(self) -> None:
        try:
            self._open_table().refresh()
        except UNAVAILABLE_ERRORS as failure:
            raise self._to_unavailable(failure) from failure

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        self.open()
        return {partition: self._stored_offset(partition) for partition in partitions}

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        if not rows and not moves:
            return
        new_rows = self._to_arrow_table(self.deduplicate_rows(rows))
        self.open()
        if moves:
            require_not_fenced(moves, {partition: self._stored_offset(partition) for partition in moves}, self.sink)
        try:
            self._commit(new_rows, moves or {})
        except CommitFailedException as failure:
            if moves:
                require_not_fenced(moves, self.read_offsets(moves), self.sink)
            raise self._to_unavailable(failure) from failure
        except UNAVAILABLE_ERRORS as failure:
            self._cached_table = None
            raise self._to_unavailable(failure) from failure

    def close(self) -> None:
        if "_catalog" in vars(self):
            self._catalog.close()

    def _commit(self, new_rows: pa.Table, moves: OffsetMoves) -> None:
        """Commit rows and offsets in one transaction with a snapshot; a concurrent commit makes it fail."""
        with self._open_table().transaction() as transaction:
            if moves:
                transaction.set_properties(
                    {self._offset_property(partition): _format_offset(move.after) for partition, move in moves.items()}
                )
            winning_rows = (
                self._replace_losing_rows(transaction, new_rows) if self.sink.key and new_rows.num_rows else new_rows
            )
            if winning_rows.num_rows:
                transaction.append(winning_rows)
            elif moves:
                transaction.update_snapshot().fast_append().commit()

    def _replace_losing_rows(self, transaction: Transaction, new_rows: pa.Table) -> pa.Table:
        """Delete the stored rows that lose against new rows of their keys; returns the new rows that win."""
        selected_columns = (*self.sink.key, PARTITION, OFFSET)
        scan = self._open_table().scan(
            row_filter=_key_filter(self.sink.key, new_rows), selected_fields=selected_columns
        )
        stored_by_key = {tuple(row[name] for name in self.sink.key): row for row in scan.to_arrow().to_pylist()}
        winner_mask = [
            self._is_winner(row, stored_by_key.get(tuple(row[name] for name in self.sink.key)))
            for row in new_rows.to_pylist()
        ]
        winning_rows = new_rows.filter(pa.array(winner_mask))
        replacing_rows = [
            row for row in winning_rows.to_pylist() if tuple(row[name] for name in self.sink.key) in stored_by_key
        ]
        if replacing_rows:
            transaction.delete(_key_filter(self.sink.key, pa.Table.from_pylist(replacing_rows, new_rows.schema)))
        return winning_rows

    def _is_winner(self, row: dict[str, Any], stored_row: dict[str, Any] | None) -> bool:
        if stored_row is None:
            return True
        is_later = stored_row[PARTITION] != row[PARTITION] or stored_row[OFFSET] < row[OFFSET]
        return self.sink.conflict_policy == "last" and is_later

    @cached_property
    def _catalog(self) -> Catalog:
        return open_catalog(self._folder / CATALOG_FILE)

    def _open_table(self) -> Table:
        """The table: created if missing, with new columns added; rejects a table whose columns differ."""
        if self._cached_table is None:
            table = self._load_table() or self._create_table()
            table_label = f"the table {self._table_name} in {str(self._folder)!r}"
            added_columns = missing_columns(
                self._table_schema(), from_iceberg_schema(table.schema().as_arrow()), table_label, self.sink
            )
            if added_columns:
                with table.update_schema() as schema_update:
                    schema_update.union_by_name(pa.schema(added_columns))
            if not NO_COMMIT_RETRIES.items() <= table.properties.items():
                table.transaction().set_properties(NO_COMMIT_RETRIES).commit_transaction()
            self._cached_table = table
        return self._cached_table

    def _load_table(self) -> Table | None:
        try:
            return self._catalog.load_table(self._table_name)
        except NoSuchTableError:
            return None

    def _create_table(self) -> Table:
        catalog = self._catalog
        with lock_folder(self._folder):  # another copy may create it at the same time
            catalog.create_namespace_if_not_exists(self._table_name.rpartition(".")[0])
        try:
            return catalog.create_table(
                self._table_name, self._table_schema(), properties={**NO_COMMIT_RETRIES, **METADATA_RETENTION}
            )
        except TableAlreadyExistsError:  # another copy was faster
            return self._catalog.load_table(self._table_name)

    def _table_schema(self) -> pa.Schema:
        declared_columns = [(column.name, ARROW_TYPES[column.type]) for column in self.sink.schema]
        return to_iceberg_schema(pa.schema([*declared_columns, (PARTITION, pa.int32()), (OFFSET, pa.int64())]))

    def _to_arrow_table(self, rows: Sequence[SinkRow]) -> pa.Table:
        records = [row.values | {PARTITION: row.partition, OFFSET: row.offset} for row in rows]
        try:
            return pa.Table.from_pylist(records, self._table_schema())
        except (pa.ArrowException, OverflowError) as error:
            raise RowsRejected(f"rejected: {error}") from error

    def _stored_offset(self, partition: Partition) -> ExternalOffset:
        property_value = self._open_table().properties.get(self._offset_property(partition))
        return ExternalOffset(*map(int, property_value.split())) if property_value else ExternalOffset()

    def _offset_property(self, partition: Partition) -> str:
        return f"headrace.{self.sink.slug}.{partition.topic}/{partition.number}"

    def _to_unavailable(self, failure: Any) -> TargetUnavailable:
        return TargetUnavailable(
            f"{self.sink.name}: the Iceberg table {self._table_name} in {str(self._folder)!r} rejects rows: {failure}."
        )


def _format_offset(offset: ExternalOffset) -> str:
    return " ".join(map(str, offset))


def _key_filter(key: Sequence[str], rows: pa.Table) -> BooleanExpression:
    """A filter for rows with one of the keys of a table."""
    if len(key) == 1:
        return IS_IN(key[0], set(rows[key[0]].to_pylist()))
    row_filters = [
        reduce(AND, (EQUAL_TO(name, row[name]) for name in key)) for row in rows.select(list(key)).to_pylist()
    ]
    return reduce(OR, row_filters)
