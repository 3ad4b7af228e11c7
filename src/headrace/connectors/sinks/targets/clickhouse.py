"""ClickHouse over HTTP: blocks of rows, each with the source offset by which the table recognizes duplicates.

at least once, in blocks ──▶ e1@7  e2@8  e3@9   e2@8  e3@9        a restart writes some rows again
                                    FINAL ──▶ e1  e2  e3          the table's order and version replace duplicates

There are no transactions: a repeated write, in any order and however late, has no effect.
"""

import http.client
import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

from headrace.connectors.sinks.clickhouse.http_client import ClickHouseClient, ClickHouseRefused, quote_identifier
from headrace.connectors.sinks.clickhouse.native_format import ClickHouseColumn, encode_block
from headrace.connectors.sinks.clickhouse.table_schema import (
    ClickHouseTableInfo,
    ClickHouseTableSpec,
    parse_sorting_key,
)
from headrace.connectors.sinks.connection_secrets import redact_secret, resolve_address
from headrace.connectors.sinks.sink_rows import SinkRow
from headrace.connectors.sinks.writer import OffsetMoves, RowsRejected, SinkConfig, SinkWriter, TargetUnavailable
from headrace.declare.sinks.sink import OFFSET, PARTITION, VERSION, Sink
from headrace.declare.sinks.targets import ClickHouse
from headrace.tiles.finish import EPOCH

MAX_OFFSET = (1 << 63) - 1
SELECT_TABLE_SQL = "SELECT engine, engine_full, sorting_key FROM system.tables"
SELECT_COLUMNS_SQL = "SELECT name, type FROM system.columns WHERE default_kind NOT IN ('MATERIALIZED', 'ALIAS')"
MIN_YEAR, MAX_YEAR = 1900, 2299  # of DateTime64
# Errors about rows and not about the server: values that it, a constraint or a computed column rejects.
ROW_ERROR_CODES = frozenset({6, 38, 41, 69, 72, 153, 321, 349, 395, 407, 469, 691})
UNAVAILABLE_ERRORS = (OSError, http.client.HTTPException, ValueError)


class ClickHouseWriter(SinkWriter):
    """Writes to one table; each write is a part that the server merges later, so rows are collected into large ones."""

    max_rows: ClassVar[int] = 50_000
    linger_s: ClassVar[float] = 1.0

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        self._target: ClickHouse = sink.to  # type: ignore[assignment]  # its class selects this writer
        self._table_columns: tuple[ClickHouseColumn, ...] | None = None

    def open(self) -> None:
        self._table_columns = None
        self._table_columns = self._call_clickhouse(self._prepare_table)

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:  # noqa: ARG002  # no offsets
        if not rows:
            return
        if self._table_columns is None:
            self.open()
        columns = self._table_columns or ()
        encoded_rows = self._encode_rows(columns, self.deduplicate_rows(rows))
        names = ", ".join(quote_identifier(column.name) for column in columns)
        statement = f"INSERT INTO {self._table_spec.qualified_name} ({names}) FORMAT Native"
        self._call_clickhouse(lambda: self._client.execute(statement, encoded_rows))

    def _call_clickhouse(self, step: Callable[[], Any]) -> Any:
        """Run a step; ClickHouse's errors become `RowsRejected` or `TargetUnavailable`, which resets the table."""
        try:
            return step()
        except ClickHouseRefused as failure:
            if failure.code in ROW_ERROR_CODES:
                raise RowsRejected(f"rejected: {failure}") from failure
            raise self._to_unavailable(failure) from failure
        except UNAVAILABLE_ERRORS as failure:
            raise self._to_unavailable(failure) from failure

    def _to_unavailable(self, failure: Exception) -> TargetUnavailable:
        self._table_columns = None
        message = redact_secret(failure, resolve_address(self._target.url, self.sink.name)) or type(failure).__name__
        return TargetUnavailable(f"{self.sink.name}: ClickHouse does not take rows: {message}.")

    @cached_property
    def _client(self) -> ClickHouseClient:
        return ClickHouseClient(resolve_address(self._target.url, self.sink.name))

    @cached_property
    def _table_spec(self) -> ClickHouseTableSpec:
        database, _, table = self._target.table.rpartition(".")
        return ClickHouseTableSpec(self.sink, database or self._client.database, table)

    def _prepare_table(self) -> tuple[ClickHouseColumn, ...]:
        """The table's columns; creates a missing table, and adds new columns of the stream."""
        table_info = self._read_table_info()
        if table_info is None or self._table_spec.missing_columns(table_info):
            known_families = {name for (name,) in self._client.query_rows("SELECT name FROM system.data_type_families")}
            self._client.execute(
                self._table_spec.create_statement(known_families)
                if table_info is None
                else self._table_spec.alter_statement(table_info, known_families)
            )
            table_info = self._read_table_info()
        if table_info is None:
            raise TargetUnavailable(
                f"{self.sink.name}: the table {self._table_spec.qualified_name} was created, and does not exist. "
                f"Check the server's databases."
            )
        return self._table_spec.match_columns(table_info)

    def _read_table_info(self) -> ClickHouseTableInfo | None:
        table_spec, query_rows = self._table_spec, self._client.query_rows
        tables = query_rows(f"{SELECT_TABLE_SQL} WHERE {table_spec.where_clause('name')}")
        if not tables:
            return None
        columns = query_rows(f"{SELECT_COLUMNS_SQL} AND {table_spec.where_clause('table')}")
        ((engine, engine_with_settings, sorting_key),) = tables
        return ClickHouseTableInfo(engine, engine_with_settings, parse_sorting_key(sorting_key), dict(columns))

    def _encode_rows(self, columns: Sequence[ClickHouseColumn], rows: Sequence[SinkRow]) -> bytes:
        try:
            return encode_block([(column, self._column_values(column, rows)) for column in columns])
        except (struct.error, OverflowError) as error:
            raise RowsRejected(f"rejected: {error}") from error

    def _column_values(self, column: ClickHouseColumn, rows: Sequence[SinkRow]) -> list[Any]:
        location_getters: dict[str, Callable[[SinkRow], int]] = {
            PARTITION: lambda row: row.partition,
            OFFSET: lambda row: row.offset,
            VERSION: self._row_version,
        }
        if column.name in location_getters:
            return [location_getters[column.name](row) for row in rows]
        return [_to_column_value(column, row) for row in rows]

    def _row_version(self, row: SinkRow) -> int:
        """The version of a row; the row with the greatest stays."""
        return row.offset if self.sink.conflict_policy == "last" else MAX_OFFSET - row.offset


def _to_column_value(column: ClickHouseColumn, row: SinkRow) -> Any:
    value = row.values[column.name]
    if value is None and not column.is_nullable:
        raise RowsRejected(f"null: column {column.name} of the table is not nullable; {row.location}")
    if not isinstance(value, datetime):
        return value
    if column.type_family == "DateTime64" and not MIN_YEAR <= value.year <= MAX_YEAR:
        raise RowsRejected(
            f"beyond-calendar: column {column.name} is {value}, and {column.type} ends there; {row.location}"
        )
    return (value - EPOCH) // timedelta(microseconds=1)
