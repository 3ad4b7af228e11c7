"""A connection to Cassandra, made when it is first needed, with what is asked over it prepared."""

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
PORT = 9042
PROTOCOL = 4  # which every server of the last ten years speaks
READS = "reads"
GONE = (DriverException, NoHostAvailable, ConnectionException, OSError)
MADE_ANEW = (InvalidRequest, NoHostAvailable)  # after which a connection is made anew

TABLE = "headrace_tiles"
# Rows are never deleted, they expire: that one has need only be remembered as long as a node that was away is told.
CREATE = """
    CREATE TABLE IF NOT EXISTS headrace_tiles (key blob, field blob, value blob, PRIMARY KEY (key, field))
    WITH gc_grace_seconds = 10800
"""
SELECT = "SELECT field, value FROM headrace_tiles WHERE key = ? AND field >= ? AND field <= ?"
INSERT = "INSERT INTO headrace_tiles (key, field, value) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?"
BEGIN = "INSERT INTO headrace_tiles (key, field, value) VALUES (?, ?, ?) IF NOT EXISTS"
MOVE = "UPDATE headrace_tiles SET value = ? WHERE key = ? AND field = ? IF EXISTS"


class WithoutTraces(logging.Filter):
    """Leaves the stack out of what the driver logs: while a server is away it logs one with each try."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        return True


for _name in ("cassandra.cluster", "cassandra.pool", "cassandra.connection"):
    logging.getLogger(_name).addFilter(WithoutTraces())


class Prepared(NamedTuple):
    """A session and what is asked in it."""

    session: Session
    select: PreparedStatement
    insert: PreparedStatement
    begin: PreparedStatement
    move: PreparedStatement


class Link:
    """One connection that threads share."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self.ready: Prepared | None = None
        self._failed: tuple[float, BaseException] | None = None
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        """Where it leads, without the name and password that may stand in its URL."""
        return f"{self._url.hostname}:{self._url.port or PORT}"

    @property
    def keyspace(self) -> str:
        return self._url.path.strip("/")

    def prepared(self, *, is_writer: bool = False) -> Prepared:
        """Connect, if that is not done; a writer makes the table where it is missing."""
        with self._lock:
            if self.ready is None:
                self._raise_recent_failure()
                self.ready = self._connected(is_writer)
            return self.ready

    def drop_after(self, failure: BaseException, used: Prepared | None) -> None:
        """Let go of a connection that will not come right by itself, unless somebody has made it anew already."""
        with self._lock:
            if isinstance(failure, MADE_ANEW) and self.ready is used:
                self._drop()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        held, self.ready = self.ready, None
        if held is not None:
            held.session.cluster.shutdown()

    def _raise_recent_failure(self) -> None:
        """Those who waited for an attempt that failed do not wait for one each."""
        if self._failed is not None and time.monotonic() - self._failed[0] < RETRY_SECONDS:
            raise ConnectionException(str(self._failed[1]))

    def _connected(self, is_writer: bool) -> Prepared:
        cluster = self._cluster()
        try:
            session = cluster.connect(self.keyspace)
            known = cluster.metadata.keyspaces.get(self.keyspace)
            if is_writer and (known is None or TABLE not in known.tables):
                session.execute(CREATE)
            return Prepared(session, *(session.prepare(query) for query in (SELECT, INSERT, BEGIN, MOVE)))
        except GONE as failure:
            self._failed = time.monotonic(), failure
            cluster.shutdown()
            raise

    def _cluster(self) -> Cluster:
        url = self._url
        auth = PlainTextAuthProvider(unquote(url.username), unquote(url.password or "")) if url.username else None
        return Cluster(
            (url.hostname or "").split(","),
            port=url.port or PORT,
            auth_provider=auth,
            protocol_version=PROTOCOL,
            connect_timeout=READ_SECONDS,
            control_connection_timeout=WRITE_SECONDS,
            reconnection_policy=ConstantReconnectionPolicy(RETRY_SECONDS, max_attempts=None),
            execution_profiles={EXEC_PROFILE_DEFAULT: _profile(WRITE_SECONDS), READS: _profile(READ_SECONDS)},
        )


def _profile(seconds: float) -> ExecutionProfile:
    """Reads and writes by most replicas: what an answer has told, a later one must not take back."""
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=seconds,
        row_factory=tuple_factory,
    )


def answered(link: Prepared, statement: PreparedStatement, values: Sequence[Any]) -> "asyncio.Future[list[Any]]":
    """The rows that answer a question, in this thread's event loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Any]] = loop.create_future()

    def settle(give: Callable[[Any], None], answer: Any) -> None:
        if not future.done():  # else whoever asked has gone
            give(answer)

    response = link.session.execute_async(statement, values, execution_profile=READS)
    response.add_callbacks(
        lambda rows: loop.call_soon_threadsafe(settle, future.set_result, rows),
        lambda failure: loop.call_soon_threadsafe(settle, future.set_exception, failure),
    )
    return future
