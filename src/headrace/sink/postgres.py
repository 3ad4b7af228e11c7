"""PostgreSQL: rows upserted by their key, with the offsets in the same transaction.

BEGIN ─ lock our offsets ─ are they where we left them? ─ rows ─ offsets ─ COMMIT
                            └ no: another copy has been here; roll back, go on from where it is

A copy that was cut off and comes back finds other offsets than it left, and writes nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import psycopg
from psycopg import sql

from headrace.declare.sink import OFFSET, PARTITION, Sink
from headrace.declare.targets import Postgres
from headrace.log.placed import Place, Places
from headrace.log.records import Partition
from headrace.sink.rows import Row
from headrace.sink.secrets import secret_of, without
from headrace.sink.writer import Away, Moves, Rejected, SinkPlace, Writer, require_unmoved

OFFSETS = """CREATE TABLE IF NOT EXISTS headrace_offsets (
    sink text, topic text, partition integer, next_offset bigint NOT NULL, last_raw bigint NOT NULL,
    PRIMARY KEY (sink, topic, partition))"""
BEGIN = "INSERT INTO headrace_offsets VALUES (%s, %s, %s, -1, -1) ON CONFLICT DO NOTHING"
LOCK = """SELECT topic, partition, next_offset, last_raw FROM headrace_offsets
    WHERE sink = %s AND (topic, partition) IN (SELECT * FROM unnest(%s::text[], %s::integer[]))
    ORDER BY topic, partition FOR UPDATE"""
MOVE = """UPDATE headrace_offsets SET next_offset = %s, last_raw = %s
    WHERE sink = %s AND topic = %s AND partition = %s"""
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
CONNECT_SECONDS = 10
SETTINGS = {
    "statement_timeout": "30s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "30s",  # a copy that is frozen lets go of its locks
    "timezone": "UTC",
}
TYPES = {
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
# What PostgreSQL says of rows and not of itself: wrong data, broken constraints, and what triggers raise.
OF_ROWS = ("22", "23", "44", "P0")

Answer = TypeVar("Answer")


class PostgresWriter(Writer):
    """Writes to one table; one connection, opened anew after each failure."""

    most_rows: ClassVar[int] = 5000
    keeps_places: ClassVar[bool] = True

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        self._target: Postgres = sink.to  # type: ignore[assignment]  # chosen by it
        self._connection: psycopg.Connection[Any] | None = None
        self._table = sql.Identifier(*self._target.table.split("."))
        self._upsert = self._upsert_of()

    def open(self) -> None:
        def check(cursor: psycopg.Cursor[Any]) -> None:
            cursor.execute("SELECT 1")

        self._in_transaction(check)

    def places(self, partitions: Iterable[Partition]) -> Places:
        wanted = sorted(partitions)

        def read(cursor: psycopg.Cursor[Any]) -> Places:
            cursor.executemany(BEGIN, [(self.sink.slug, *at) for at in wanted])
            return self._locked(cursor, wanted)

        return self._in_transaction(read)

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:
        def write(cursor: psycopg.Cursor[Any]) -> None:
            if moves:
                require_unmoved(moves, self._locked(cursor, moves), self.sink)
            if rows:
                cursor.execute(self._upsert, self._arrays(self.distinct(rows)))
            if moves:
                self._move(cursor, moves)

        self._in_transaction(write)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _in_transaction(self, work: Callable[[psycopg.Cursor[Any]], Answer]) -> Answer:
        """Do some work as a whole; whatever PostgreSQL says is told in our words."""
        connection = self._connected()
        try:
            with connection.transaction(), connection.cursor() as cursor:
                return work(cursor)
        except psycopg.Error as failure:
            if _is_of_rows(failure):
                raise Rejected(f"rejected: {said(failure)}") from failure
            self.close()
            raise self._away(failure) from failure

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            url = secret_of(self._target.url, self.sink.name)
            options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
            try:
                connection = psycopg.connect(
                    url, autocommit=True, connect_timeout=CONNECT_SECONDS, options=options, application_name="headrace"
                )
                self._prepare(connection)
            except psycopg.Error as failure:
                raise self._away(failure) from failure
            self._connection = connection
        return self._connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Make the tables that are missing, and let PostgreSQL judge whether ours fits, before any row is read."""
        connection.execute(OFFSETS)
        connection.execute(self._create_of())
        self._add_new_columns(connection)
        connection.execute(sql.SQL("EXPLAIN ") + self._upsert, self._arrays([]))

    def _add_new_columns(self, connection: psycopg.Connection[Any]) -> None:
        """Add what the stream has gained since a sink made the table; a table of another's making stays as it is."""
        found = {name for (name,) in connection.execute(COLUMNS, [self._table.as_string(connection)])}
        if not {PARTITION, OFFSET} <= found:
            return
        for name, kind in self._types().items():
            if name not in found:
                statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
                connection.execute(statement.format(self._table, sql.Identifier(name), sql.SQL(kind)))

    def _away(self, failure: psycopg.Error) -> Away:
        shown = without(said(failure), secret_of(self._target.url, self.sink.name))
        remedy = ""
        if (failure.sqlstate or "").startswith("42"):
            columns, key = ", ".join([*self.sink.columns, PARTITION, OFFSET]), ", ".join(self.sink.key)
            remedy = f" The table {self._target.table} needs the columns {columns}, and a unique index on {key}."
        return Away(f"{self.sink.name}: PostgreSQL does not take rows: {shown}.{remedy}")

    def _locked(self, cursor: psycopg.Cursor[Any], partitions: Iterable[Partition]) -> Places:
        """The places of partitions, which nobody else moves until this transaction ends."""
        topics, numbers = zip(*partitions, strict=True)
        cursor.execute(LOCK, [self.sink.slug, list(topics), list(numbers)])
        return {Partition(topic, number): Place(*place) for topic, number, *place in cursor}

    def _move(self, cursor: psycopg.Cursor[Any], moves: Moves) -> None:
        cursor.executemany(MOVE, [(*move.after, self.sink.slug, *at) for at, move in moves.items()])

    def _types(self) -> dict[str, str]:
        own = {column.name: TYPES[column.type] for column in self.sink.schema}
        return own | {PARTITION: "integer", OFFSET: "bigint"}

    def _create_of(self) -> sql.Composed:
        columns = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in self._types().items()]
        key = sql.SQL("PRIMARY KEY ({})").format(_names(self.sink.key))
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self._table, sql.SQL(", ").join([*columns, key]))

    def _upsert_of(self) -> sql.Composed:
        """One statement for any number of rows, each column an array; the last row of a key wins by its place."""
        arrays = sql.SQL(", ").join(
            sql.SQL("{}::{}[]").format(sql.Placeholder(), sql.SQL(kind)) for kind in self._types().values()
        )
        return sql.SQL("INSERT INTO {} AS held ({}) SELECT * FROM unnest({}) ON CONFLICT ({}) {}").format(
            self._table, _names(self._types()), arrays, _names(self.sink.key), self._conflict_of()
        )

    def _conflict_of(self) -> sql.Composable:
        if self.sink.wins == "first":
            return sql.SQL("DO NOTHING")
        news = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in self._types())
        return sql.SQL(
            "DO UPDATE SET {0} WHERE held.{1} IS DISTINCT FROM excluded.{1} OR held.{2} < excluded.{2}"
        ).format(news, sql.Identifier(PARTITION), sql.Identifier(OFFSET))

    def _arrays(self, rows: Sequence[Row]) -> list[list[Any]]:
        own = [[row.values[name] for row in rows] for name in self.sink.columns]
        return [*own, [row.partition for row in rows], [row.offset for row in rows]]


def _names(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _is_of_rows(failure: psycopg.Error) -> bool:
    if failure.sqlstate is None:
        return isinstance(failure, psycopg.DataError)  # refused before it was sent, such as a NUL in a text
    return failure.sqlstate.startswith(OF_ROWS)


def said(failure: psycopg.Error) -> str:
    """The first sentence, without what PostgreSQL quotes of rows."""
    return (failure.diag.message_primary or str(failure).partition("\n")[0]).rstrip(".")
