"""A connection to Cassandra, opened on first use, with its prepared statements."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cassandra import ConsistencyLevel, DriverException, InvalidRequest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.query import PreparedStatement, tuple_factory

READ_SECONDS, WRITE_SECONDS = 1.0, 5.0
RETRY_SECONDS = 0.2
DEFAULT_PORT = 9042
PROTOCOL_VERSION = 4  # supported by every server of the last ten years
READ_PROFILE = "reads"
CONNECTION_ERRORS = (DriverException, NoHostAvailable, ConnectionException, OSError)
RECONNECT_ERRORS = (InvalidRequest, NoHostAvailable)  # errors after which to reconnect

TABLE = "headrace_tiles"
# Rows expire and are never deleted: a tombstone is only kept until a node that was down has received it.
CREATE_TABLE = """
    CREATE TABLE IF NOT EXISTS headrace_tiles (key blob, field blob, value blob, PRIMARY KEY (key, field))
    WITH gc_grace_seconds = 10800
"""
SELECT_ROWS = "SELECT field, value FROM headrace_tiles WHERE key = ? AND field >= ? AND field <= ?"
INSERT_TILE = "INSERT INTO headrace_tiles (key, field, value) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?"
INSERT_OFFSET = "INSERT INTO headrace_tiles (key, field, value) VALUES (?, ?, ?) IF NOT EXISTS"
UPDATE_OFFSET = "UPDATE headrace_tiles SET value = ? WHERE key = ? AND field = ? IF EXISTS"


class TracebackFilter(logging.Filter):
    """Removes the traceback from the driver's logs: while a server is down it logs one with each attempt."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return True


for _logger_name in ("cassandra.cluster", "cassandra.pool", "cassandra.connection"):
    logging.getLogger(_logger_name).addFilter(TracebackFilter())


class PreparedSession(NamedTuple):
    """A session and its prepared statements."""

    session: Session
    select_rows: PreparedStatement
    insert_tile: PreparedStatement
    insert_offset: PreparedStatement
    update_offset: PreparedStatement


class CassandraConnection:
    """One connection that threads share."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self.prepared_session: PreparedSession | None = None
        self._last_failure: tuple[float, BaseException] | None = None
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """The address, without the name and password that its URL may contain."""
        return f"{self._url.hostname}:{self._url.port or DEFAULT_PORT}"

    @property
    def keyspace(self) -> str:
        return self._url.path.strip("/")

    def ensure_connected(self, *, is_writer: bool = False) -> PreparedSession:
        """Connect if necessary; a writer creates the table if it is missing."""
        with self._lock:
            if self.prepared_session is None:
                self._raise_recent_failure()
                self.prepared_session = self._connect(is_writer)
            return self.prepared_session

    def drop_broken(self, failure: BaseException, failed_session: PreparedSession | None) -> None:
        """Close a connection that cannot recover, unless another thread has already replaced it."""
        with self._lock:
            if isinstance(failure, RECONNECT_ERRORS) and self.prepared_session is failed_session:
                self._drop()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        session, self.prepared_session = self.prepared_session, None
        if session is not None:
            session.session.cluster.shutdown()

    def _raise_recent_failure(self) -> None:
        """Callers that waited for a failed attempt fail with it, instead of trying once each."""
        if self._last_failure is not None and time.monotonic() - self._last_failure[0] < RETRY_SECONDS:
            raise ConnectionException(str(self._last_failure[1]))

    def _connect(self, is_writer: bool) -> PreparedSession:
        cluster = self._create_cluster()
        try:
            session = cluster.connect(self.keyspace)
            keyspace_metadata = cluster.metadata.keyspaces.get(self.keyspace)
            if is_writer and (keyspace_metadata is None or TABLE not in keyspace_metadata.tables):
                session.execute(CREATE_TABLE)
            return PreparedSession(
                session,
                *(session.prepare(statement) for statement in (SELECT_ROWS, INSERT_TILE, INSERT_OFFSET, UPDATE_OFFSET)),
            )
        except CONNECTION_ERRORS as failure:
            self._last_failure = time.monotonic(), failure
            cluster.shutdown()
            raise

    def _create_cluster(self) -> Cluster:
        url = self._url
        auth = PlainTextAuthProvider(unquote(url.username), unquote(url.password or "")) if url.username else None
        return Cluster(
            (url.hostname or "").split(","),
            port=url.port or DEFAULT_PORT,
            auth_provider=auth,
            protocol_version=PROTOCOL_VERSION,
            connect_timeout=READ_SECONDS,
            control_connection_timeout=WRITE_SECONDS,
            reconnection_policy=ConstantReconnectionPolicy(RETRY_SECONDS, max_attempts=None),
            execution_profiles={
                EXEC_PROFILE_DEFAULT: _execution_profile(WRITE_SECONDS),
                READ_PROFILE: _execution_profile(READ_SECONDS),
            },
        )


def _execution_profile(timeout_s: float) -> ExecutionProfile:
    """Reads and writes with quorum: a later read must not return older data."""
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=timeout_s,
        row_factory=tuple_factory,
    )


def execute_async(
    session: PreparedSession, statement: PreparedStatement, values: Sequence[Any]
) -> "asyncio.Future[list[Any]]":
    """The rows of a statement's result, in this thread's event loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Any]] = loop.create_future()

    def resolve(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():  # otherwise the caller was cancelled
            set_outcome(outcome)

    response = session.session.execute_async(statement, values, execution_profile=READ_PROFILE)
    response.add_callbacks(
        lambda rows: loop.call_soon_threadsafe(resolve, future.set_result, rows),
        lambda failure: loop.call_soon_threadsafe(resolve, future.set_exception, failure),
    )
    return future
