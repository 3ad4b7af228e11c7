"""The outbox table: its columns, its pending rows, and the lock of the relay that sends them.

BEGIN; UPDATE orders …; INSERT INTO outbox (stream, key, payload) …; COMMIT      the service: both, or neither
                                  │
              seq  id  stream  key  payload  created  parked                      the relay: sends, then removes
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql

from headrace.connectors.sinks.connection_secrets import redact_secret, resolve_address
from headrace.connectors.sinks.targets.postgres import (
    CONNECT_TIMEOUT_SECONDS,
    SESSION_SETTINGS,
    describe_postgres_error,
)
from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.errors import HeadraceError

TRY_LOCK_SQL = "SELECT pg_try_advisory_lock(hashtextextended('headrace outbox ' || %s::regclass::oid, 0))"
SELECT_PENDING_SQL = """SELECT seq, id, stream, key, payload::text,
    extract(epoch FROM clock_timestamp() - created)::float8
    FROM {0} WHERE parked IS NULL AND stream <> ALL(%s) ORDER BY seq LIMIT %s"""
DELETE_ROWS_SQL = "DELETE FROM {0} WHERE seq = ANY(%s)"
PARK_ROW_SQL = "UPDATE {0} SET parked = %s WHERE seq = %s"
UNPARK_ROWS_SQL = "UPDATE {0} SET parked = NULL WHERE parked IS NOT NULL"
SELECT_PARKED_SQL = (
    "SELECT seq, id, stream, key, created, parked FROM {0} WHERE parked IS NOT NULL ORDER BY seq LIMIT %s"
)
SELECT_STATUS_SQL = """SELECT count(*) FILTER (WHERE parked IS NULL), count(*) FILTER (WHERE parked IS NOT NULL),
    min(created) FILTER (WHERE parked IS NULL) FROM {0}"""
# Both ends detect a broken connection within seconds, so that the lock is free again.
KEEPALIVE_OPTIONS = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}

ResultT = TypeVar("ResultT")


class OutboxLockedError(HeadraceError):
    """Another relay holds the lock of this table: one relay at a time keeps the order."""


class PendingOutboxRow(NamedTuple):
    """A row to send."""

    seq: int
    id: str
    stream: str
    key: str
    payload: str
    waited_s: float


class ParkedOutboxRow(NamedTuple):
    """A row that cannot be sent, and the reason."""

    seq: int
    id: str
    stream: str
    key: str
    created: datetime
    reason: str


class OutboxStatus(NamedTuple):
    """The number of pending and of parked rows, and the creation time of the oldest pending row."""

    pending_count: int
    parked_count: int
    oldest_created: datetime | None


class OutboxTable:
    """An outbox in PostgreSQL; one connection, reopened after each failure."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._identifier = sql.Identifier(*name.split("."))
        self._connection: psycopg.Connection[Any] | None = None
        self._holds_lock = False

    def require_lock(self) -> None:
        """Acquire the lock that allows sending, or fail while another relay holds it; the connection holds the lock."""
        if self._holds_lock and self._connection is not None and not self._connection.closed:
            return
        quoted_name = self._identifier.as_string(None)
        ((self._holds_lock,),) = self._run_in_transaction(
            lambda cursor: cursor.execute(TRY_LOCK_SQL, [quoted_name]).fetchall()
        )
        if not self._holds_lock:
            raise OutboxLockedError(f"{self.name}: another relay sends its rows; this one stands by.")

    def read_pending(self, limit: int, excluded_streams: Collection[str]) -> list[PendingOutboxRow]:
        """The first rows to send, without those of the excluded streams."""
        return [PendingOutboxRow(*row) for row in self._fetch_rows(SELECT_PENDING_SQL, [list(excluded_streams), limit])]

    def delete_rows(self, seqs: Sequence[int]) -> None:
        """Delete rows that are in Kafka."""
        self._run_in_transaction(lambda cursor: cursor.execute(self._format_statement(DELETE_ROWS_SQL), [list(seqs)]))

    def park_rows(self, reason_by_seq: Mapping[int, str]) -> None:
        """Park rows that can never be sent as they are."""
        self._run_in_transaction(
            lambda cursor: cursor.executemany(
                self._format_statement(PARK_ROW_SQL), [(reason, seq) for seq, reason in reason_by_seq.items()]
            )
        )

    def unpark_rows(self) -> int:
        """Make every parked row pending again; returns their number."""
        return self._run_in_transaction(lambda cursor: cursor.execute(self._format_statement(UNPARK_ROWS_SQL)).rowcount)

    def read_parked(self, limit: int) -> list[ParkedOutboxRow]:
        """The first parked rows."""
        return [ParkedOutboxRow(*row) for row in self._fetch_rows(SELECT_PARKED_SQL, [limit])]

    def read_status(self) -> OutboxStatus:
        """The current numbers of rows."""
        return OutboxStatus(*self._fetch_rows(SELECT_STATUS_SQL, [])[0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection, self._holds_lock = None, False

    def _fetch_rows(self, statement: str, values: list[Any]) -> list[Any]:
        return self._run_in_transaction(
            lambda cursor: cursor.execute(self._format_statement(statement), values).fetchall()
        )

    def _format_statement(self, statement: str) -> sql.Composed:
        return sql.SQL(statement).format(self._identifier)

    def _run_in_transaction(self, action: Callable[[psycopg.Cursor[Any]], ResultT]) -> ResultT:
        """Run an action in one transaction; PostgreSQL's errors become `TargetUnavailable`, without its address."""
        try:
            connection = self._ensure_connection()
            with connection.transaction(), connection.cursor() as cursor:
                return action(cursor)
        except psycopg.Error as failure:
            self.close()
            message = redact_secret(describe_postgres_error(failure), resolve_address(self._url, self.name))
            raise TargetUnavailable(
                f"{self.name}: PostgreSQL does not answer as it should: {message}.{self._remedy(failure)}"
            ) from failure

    def _ensure_connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection, self._holds_lock = None, False
            url = resolve_address(self._url, self.name)
            options = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
            connection_options = {
                "options": options,
                "application_name": "headrace outbox",
                "connect_timeout": CONNECT_TIMEOUT_SECONDS,
            }
            self._connection = psycopg.connect(url, autocommit=True, **connection_options, **KEEPALIVE_OPTIONS)  # type: ignore[arg-type]
        return self._connection

    def _remedy(self, failure: psycopg.Error) -> str:
        is_table_error = (failure.sqlstate or "").startswith("42")
        return (
            f" `headrace outbox --print-sql --table {self.name}` prints the table it needs." if is_table_error else ""
        )
