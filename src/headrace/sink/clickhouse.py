"""ClickHouse over HTTP: blocks of rows, each row with the place that makes it the same row when it is written again.

at least once, in blocks ──▶ e1@7  e2@8  e3@9   e2@8  e3@9        killed between: some are written again
                                    FINAL ──▶ e1  e2  e3          by the table's order and version they are one

There are no transactions: whoever writes again, in whatever order and however late, changes nothing.
"""

import http.client
import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

from headrace.declare.sink import OFFSET, PARTITION, VERSION, Sink
from headrace.declare.targets import ClickHouse
from headrace.sink.clickhouse_http import Refused, Server, quoted
from headrace.sink.clickhouse_table import Found, Wanted, sorting_of
from headrace.sink.native import Held, block
from headrace.sink.rows import Row
from headrace.sink.secrets import secret_of, without
from headrace.sink.writer import Away, Moves, Rejected, SinkPlace, Writer
from headrace.tiles.finish import EPOCH

LAST_OFFSET = (1 << 63) - 1
TABLES = "SELECT engine, engine_full, sorting_key FROM system.tables"
COLUMNS = "SELECT name, type FROM system.columns WHERE default_kind NOT IN ('MATERIALIZED', 'ALIAS')"
FIRST_YEAR, LAST_YEAR = 1900, 2299  # of DateTime64
# What ClickHouse says of rows and not of itself: values that it, a constraint or a computed column cannot take.
OF_ROWS = frozenset({6, 38, 41, 69, 72, 153, 321, 349, 395, 407, 469, 691})
GONE = (OSError, http.client.HTTPException, ValueError)


class ClickhouseWriter(Writer):
    """Writes to one table; each write is a part of it that the server merges later, so rows are gathered."""

    most_rows: ClassVar[int] = 50_000
    linger_s: ClassVar[float] = 1.0

    def __init__(self, sink: Sink, place: SinkPlace) -> None:
        super().__init__(sink, place)
        self._target: ClickHouse = sink.to  # type: ignore[assignment]  # chosen by it
        self._columns: tuple[Held, ...] | None = None

    def open(self) -> None:
        self._columns = None
        self._columns = self._told(self._fitted)

    def write(self, rows: Sequence[Row], moves: Moves | None = None) -> None:  # noqa: ARG002  # keeps no places
        if not rows:
            return
        if self._columns is None:
            self.open()
        columns = self._columns or ()
        written = self._block(columns, self.distinct(rows))
        names = ", ".join(quoted(held.name) for held in columns)
        statement = f"INSERT INTO {self._wanted.name} ({names}) FORMAT Native"
        self._told(lambda: self._server.ask(statement, written))

    def _told(self, step: Callable[[], Any]) -> Any:
        """Do a step; whatever ClickHouse says is told in our words, and its table looked at anew."""
        try:
            return step()
        except Refused as failure:
            if failure.code in OF_ROWS:
                raise Rejected(f"rejected: {failure}") from failure
            raise self._away(failure) from failure
        except GONE as failure:
            raise self._away(failure) from failure

    def _away(self, failure: Exception) -> Away:
        self._columns = None
        said = without(failure, secret_of(self._target.url, self.sink.name)) or type(failure).__name__
        return Away(f"{self.sink.name}: ClickHouse does not take rows: {said}.")

    @cached_property
    def _server(self) -> Server:
        return Server(secret_of(self._target.url, self.sink.name))

    @cached_property
    def _wanted(self) -> Wanted:
        database, _, table = self._target.table.rpartition(".")
        return Wanted(self.sink, database or self._server.database, table)

    def _fitted(self) -> tuple[Held, ...]:
        """The table's columns; it is made where it is missing, and what the stream has gained since is added."""
        found = self._found()
        if found is None or self._wanted.added(found):
            known = {name for (name,) in self._server.rows("SELECT name FROM system.data_type_families")}
            self._server.ask(self._wanted.statement(known) if found is None else self._wanted.addition(found, known))
            found = self._found()
        if found is None:
            raise Away(f"{self.sink.name}: the table {self._wanted.name} was made, and is not there. Look for it.")
        return self._wanted.fitted(found)

    def _found(self) -> Found | None:
        wanted, ask = self._wanted, self._server.rows
        tables = ask(f"{TABLES} WHERE {wanted.where('name')}")
        if not tables:
            return None
        columns = ask(f"{COLUMNS} AND {wanted.where('table')}")
        ((engine, engine_with_settings, sorting),) = tables
        return Found(engine, engine_with_settings, sorting_of(sorting), dict(columns))

    def _block(self, columns: Sequence[Held], rows: Sequence[Row]) -> bytes:
        try:
            return block([(held, self._values(held, rows)) for held in columns])
        except (struct.error, OverflowError) as wrong:
            raise Rejected(f"rejected: {wrong}") from wrong

    def _values(self, held: Held, rows: Sequence[Row]) -> list[Any]:
        of_place: dict[str, Callable[[Row], int]] = {
            PARTITION: lambda row: row.partition,
            OFFSET: lambda row: row.offset,
            VERSION: self._version,
        }
        if held.name in of_place:
            return [of_place[held.name](row) for row in rows]
        return [_value(held, row) for row in rows]

    def _version(self, row: Row) -> int:
        """The greatest stays."""
        return row.offset if self.sink.wins == "last" else LAST_OFFSET - row.offset


def _value(held: Held, row: Row) -> Any:
    value = row.values[held.name]
    if value is None and not held.is_nullable:
        raise Rejected(f"null: column {held.name} of the table takes no nulls; {row.place}")
    if not isinstance(value, datetime):
        return value
    if held.family == "DateTime64" and not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise Rejected(f"beyond-calendar: column {held.name} is {value}, and {held.type} ends there; {row.place}")
    return (value - EPOCH) // timedelta(microseconds=1)
