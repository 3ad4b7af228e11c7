"""The table of an outbox: what it looks like, what of it is still to be sent, and who may send it.

BEGIN; UPDATE orders …; INSERT INTO outbox (stream, key, payload) …; COMMIT      the service: both, or neither
                                  │
              seq  id  stream  key  payload  created  parked                      the relay: sends, then removes
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql

from headrace.errors import HeadraceError
from headrace.sink.postgres import CONNECT_SECONDS, SETTINGS, said
from headrace.sink.secrets import secret_of, without
from headrace.sink.writer import Away

LOCK = "SELECT pg_try_advisory_lock(hashtextextended('headrace outbox ' || %s::regclass::oid, 0))"
WAITING = """SELECT seq, id, stream, key, payload::text, extract(epoch FROM clock_timestamp() - created)::float8
    FROM {0} WHERE parked IS NULL AND stream <> ALL(%s) ORDER BY seq LIMIT %s"""
REMOVE = "DELETE FROM {0} WHERE seq = ANY(%s)"
PARK = "UPDATE {0} SET parked = %s WHERE seq = %s"
UNPARK = "UPDATE {0} SET parked = NULL WHERE parked IS NOT NULL"
PARKED = "SELECT seq, id, stream, key, created, parked FROM {0} WHERE parked IS NOT NULL ORDER BY seq LIMIT %s"
STATUS = """SELECT count(*) FILTER (WHERE parked IS NULL), count(*) FILTER (WHERE parked IS NOT NULL),
    min(created) FILTER (WHERE parked IS NULL) FROM {0}"""
# A connection that is cut off is known to be within seconds, here and there: the lock is free again.
ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}

Answer = TypeVar("Answer")


class Standby(HeadraceError):
    """Another relay has this table: one at a time keeps the order."""


class Waiting(NamedTuple):
    """A row that is to be sent."""

    seq: int
    id: str
    stream: str
    key: str
    payload: str
    waited_s: float


class Parked(NamedTuple):
    """A row that cannot be sent, and why."""

    seq: int
    id: str
    stream: str
    key: str
    created: datetime
    reason: str


class Status(NamedTuple):
    """How many rows wait, how many are parked, and since when the oldest waits."""

    waiting: int
    parked: int
    oldest: datetime | None


class Table:
    """An outbox in PostgreSQL; one connection, opened anew after each failure."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._identifier = sql.Identifier(*name.split("."))
        self._connection: psycopg.Connection[Any] | None = None
        self._is_ours = False

    def require_ours(self) -> None:
        """Be the one that sends, or stand by until the one that does is gone; its connection is its claim."""
        if self._is_ours and self._connection is not None and not self._connection.closed:
            return
        shown = self._identifier.as_string(None)
        ((self._is_ours,),) = self._done(lambda cursor: cursor.execute(LOCK, [shown]).fetchall())
        if not self._is_ours:
            raise Standby(f"{self.name}: another relay sends its rows; this one stands by.")

    def waiting(self, at_most: int, but_of: Collection[str]) -> list[Waiting]:
        """The first rows that are to be sent, but of some streams."""
        return [Waiting(*row) for row in self._rows(WAITING, [list(but_of), at_most])]

    def remove(self, seqs: Sequence[int]) -> None:
        """Take out rows that are in the log."""
        self._done(lambda cursor: cursor.execute(self._of(REMOVE), [list(seqs)]))

    def park(self, reasons: Mapping[int, str]) -> None:
        """Put rows aside that can never be sent as they are."""
        self._done(lambda cursor: cursor.executemany(self._of(PARK), [(why, seq) for seq, why in reasons.items()]))

    def unpark(self) -> int:
        """Let every row that was put aside be tried again; how many there were."""
        return self._done(lambda cursor: cursor.execute(self._of(UNPARK)).rowcount)

    def parked(self, at_most: int) -> list[Parked]:
        """Rows that were put aside."""
        return [Parked(*row) for row in self._rows(PARKED, [at_most])]

    def status(self) -> Status:
        """What is in it now."""
        return Status(*self._rows(STATUS, [])[0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection, self._is_ours = None, False

    def _rows(self, statement: str, values: list[Any]) -> list[Any]:
        return self._done(lambda cursor: cursor.execute(self._of(statement), values).fetchall())

    def _of(self, statement: str) -> sql.Composed:
        return sql.SQL(statement).format(self._identifier)

    def _done(self, work: Callable[[psycopg.Cursor[Any]], Answer]) -> Answer:
        """Some work, as a whole; whatever PostgreSQL says is told in our words, and without its address."""
        try:
            connection = self._connected()
            with connection.transaction(), connection.cursor() as cursor:
                return work(cursor)
        except psycopg.Error as failure:
            self.close()
            why = without(said(failure), secret_of(self._url, self.name))
            raise Away(
                f"{self.name}: PostgreSQL does not answer as it should: {why}.{self._remedy(failure)}"
            ) from failure

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection, self._is_ours = None, False
            url = secret_of(self._url, self.name)
            options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
            told = {"options": options, "application_name": "headrace outbox", "connect_timeout": CONNECT_SECONDS}
            self._connection = psycopg.connect(url, autocommit=True, **told, **ALIVE)  # type: ignore[arg-type]
        return self._connection

    def _remedy(self, failure: psycopg.Error) -> str:
        is_of_table = (failure.sqlstate or "").startswith("42")
        return f" `headrace outbox --print-sql --table {self.name}` prints the table it needs." if is_of_table else ""
