"""PostgreSQL: rows upserted by their key, with the offsets in the same transaction.

BEGIN ─ lock our offsets ─ are they unchanged? ─ rows ─ offsets ─ COMMIT
                            └ no: another copy has written; roll back, continue from its offsets

A copy that was disconnected and returns finds changed offsets, and writes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import psycopg
from psycopg import sql

from headrace.connectors.sinks.connection_secrets import redact_secret, resolve_address
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
from headrace.declare.sinks.targets import Postgres
from headrace.kafka.consumers.external_offset_consumer import ExternalOffset, ExternalOffsets
from headrace.kafka.record import Partition

CREATE_OFFSETS_SQL = """CREATE TABLE IF NOT EXISTS headrace_offsets (
    sink text, topic text, partition integer, next_offset bigint NOT NULL, last_raw bigint NOT NULL,
    PRIMARY KEY (sink, topic, partition))"""
INSERT_OFFSETS_SQL = "INSERT INTO headrace_offsets VALUES (%s, %s, %s, -1, -1) ON CONFLICT DO NOTHING"
LOCK_OFFSETS_SQL = """SELECT topic, partition, next_offset, last_raw FROM headrace_offsets
    WHERE sink = %s AND (topic, partition) IN (SELECT * FROM unnest(%s::text[], %s::integer[]))
    ORDER BY topic, partition FOR UPDATE"""
UPDATE_OFFSETS_SQL = """UPDATE headrace_offsets SET next_offset = %s, last_raw = %s
    WHERE sink = %s AND topic = %s AND partition = %s"""
SELECT_COLUMNS_SQL = (
    "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
)
CONNECT_TIMEOUT_SECONDS = 10
SESSION_SETTINGS = {
    "statement_timeout": "30s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "30s",  # a frozen copy releases its locks
    "timezone": "UTC",
}
COLUMN_TYPES = {
    "string": "text",
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "timestamp": "timestamptz",
}
# Errors about rows and not about the server: wrong data, broken constraints, and errors that triggers raise.
ROW_ERROR_CLASSES = ("22", "23", "44", "P0")

ResultT = TypeVar("ResultT")


class PostgresWriter(SinkWriter):
    """Writes to one table; one connection, reopened after each failure."""

    max_rows: ClassVar[int] = 5000
    stores_offsets: ClassVar[bool] = True

    def __init__(self, sink: Sink, config: SinkConfig) -> None:
        super().__init__(sink, config)
        self._target: Postgres = sink.to  # type: ignore[assignment]  # its class selects this writer
        self._connection: psycopg.Connection[Any] | None = None
        self._table = sql.Identifier(*self._target.table.split("."))
        self._upsert_statement = self._build_upsert_statement()

    def open(self) -> None:
        def execute_check(cursor: psycopg.Cursor[Any]) -> None:
            cursor.execute("SELECT 1")

        self._run_in_transaction(execute_check)

    def read_offsets(self, partitions: Iterable[Partition]) -> ExternalOffsets:
        sorted_partitions = sorted(partitions)

        def insert_and_lock(cursor: psycopg.Cursor[Any]) -> ExternalOffsets:
            cursor.executemany(INSERT_OFFSETS_SQL, [(self.sink.slug, *partition) for partition in sorted_partitions])
            return self._lock_offsets(cursor, sorted_partitions)

        return self._run_in_transaction(insert_and_lock)

    def write(self, rows: Sequence[SinkRow], moves: OffsetMoves | None = None) -> None:
        def write_rows(cursor: psycopg.Cursor[Any]) -> None:
            if moves:
                require_not_fenced(moves, self._lock_offsets(cursor, moves), self.sink)
            if rows:
                cursor.execute(self._upsert_statement, self._to_column_arrays(self.deduplicate_rows(rows)))
            if moves:
                self._update_offsets(cursor, moves)

        self._run_in_transaction(write_rows)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run_in_transaction(self, action: Callable[[psycopg.Cursor[Any]], ResultT]) -> ResultT:
        """Run an action in one transaction; PostgreSQL's errors become `RowsRejected` or `TargetUnavailable`."""
        connection = self._ensure_connection()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                return action(cursor)
        except psycopg.Error as failure:
            if _is_row_error(failure):
                raise RowsRejected(f"rejected: {describe_postgres_error(failure)}") from failure
            self.close()
            raise self._to_unavailable(failure) from failure

    def _ensure_connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            url = resolve_address(self._target.url, self.sink.name)
            options = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
            try:
                connection = psycopg.connect(
                    url,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_SECONDS,
                    options=options,
                    application_name="headrace",
                )
                self._prepare_tables(connection)
            except psycopg.Error as failure:
                raise self._to_unavailable(failure) from failure
            self._connection = connection
        return self._connection

    def _prepare_tables(self, connection: psycopg.Connection[Any]) -> None:
        """Create missing tables, and let PostgreSQL check our statement against the table, before any row is read."""
        connection.execute(CREATE_OFFSETS_SQL)
        connection.execute(self._build_create_statement())
        self._add_new_columns(connection)
        connection.execute(sql.SQL("EXPLAIN ") + self._upsert_statement, self._to_column_arrays([]))

    def _add_new_columns(self, connection: psycopg.Connection[Any]) -> None:
        """Add the stream's new columns to a table that a sink created; leave other tables unchanged."""
        existing_columns = {
            name for (name,) in connection.execute(SELECT_COLUMNS_SQL, [self._table.as_string(connection)])
        }
        if not {PARTITION, OFFSET} <= existing_columns:
            return
        for name, column_type in self._column_types().items():
            if name not in existing_columns:
                statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
                connection.execute(statement.format(self._table, sql.Identifier(name), sql.SQL(column_type)))

    def _to_unavailable(self, failure: psycopg.Error) -> TargetUnavailable:
        message = redact_secret(describe_postgres_error(failure), resolve_address(self._target.url, self.sink.name))
        remedy = ""
        if (failure.sqlstate or "").startswith("42"):
            columns, key = ", ".join([*self.sink.columns, PARTITION, OFFSET]), ", ".join(self.sink.key)
            remedy = f" The table {self._target.table} needs the columns {columns}, and a unique index on {key}."
        return TargetUnavailable(f"{self.sink.name}: PostgreSQL does not take rows: {message}.{remedy}")

    def _lock_offsets(self, cursor: psycopg.Cursor[Any], partitions: Iterable[Partition]) -> ExternalOffsets:
        """Lock and read the offsets of partitions until this transaction ends."""
        topics, partition_numbers = zip(*partitions, strict=True)
        cursor.execute(LOCK_OFFSETS_SQL, [self.sink.slug, list(topics), list(partition_numbers)])
        return {Partition(topic, number): ExternalOffset(*offset) for topic, number, *offset in cursor}

    def _update_offsets(self, cursor: psycopg.Cursor[Any], moves: OffsetMoves) -> None:
        cursor.executemany(
            UPDATE_OFFSETS_SQL, [(*move.after, self.sink.slug, *partition) for partition, move in moves.items()]
        )

    def _column_types(self) -> dict[str, str]:
        declared_types = {column.name: COLUMN_TYPES[column.type] for column in self.sink.schema}
        return declared_types | {PARTITION: "integer", OFFSET: "bigint"}

    def _build_create_statement(self) -> sql.Composed:
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(column_type))
            for name, column_type in self._column_types().items()
        ]
        primary_key = sql.SQL("PRIMARY KEY ({})").format(_join_identifiers(self.sink.key))
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(
            self._table, sql.SQL(", ").join([*columns, primary_key])
        )

    def _build_upsert_statement(self) -> sql.Composed:
        """One statement for any number of rows, each column an array; the offset decides which row of a key wins."""
        arrays = sql.SQL(", ").join(
            sql.SQL("{}::{}[]").format(sql.Placeholder(), sql.SQL(column_type))
            for column_type in self._column_types().values()
        )
        return sql.SQL("INSERT INTO {} AS held ({}) SELECT * FROM unnest({}) ON CONFLICT ({}) {}").format(
            self._table,
            _join_identifiers(self._column_types()),
            arrays,
            _join_identifiers(self.sink.key),
            self._build_conflict_clause(),
        )

    def _build_conflict_clause(self) -> sql.Composable:
        if self.sink.conflict_policy == "first":
            return sql.SQL("DO NOTHING")
        assignments = sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in self._column_types()
        )
        return sql.SQL(
            "DO UPDATE SET {0} WHERE held.{1} IS DISTINCT FROM excluded.{1} OR held.{2} < excluded.{2}"
        ).format(assignments, sql.Identifier(PARTITION), sql.Identifier(OFFSET))

    def _to_column_arrays(self, rows: Sequence[SinkRow]) -> list[list[Any]]:
        declared_arrays = [[row.values[name] for row in rows] for name in self.sink.columns]
        return [*declared_arrays, [row.partition for row in rows], [row.offset for row in rows]]


def _join_identifiers(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _is_row_error(failure: psycopg.Error) -> bool:
    if failure.sqlstate is None:
        return isinstance(failure, psycopg.DataError)  # refused before it was sent, such as a NUL in a text
    return failure.sqlstate.startswith(ROW_ERROR_CLASSES)


def describe_postgres_error(failure: psycopg.Error) -> str:
    """The first sentence of an error, without the row values that PostgreSQL quotes."""
    return (failure.diag.message_primary or str(failure).partition("\n")[0]).rstrip(".")
