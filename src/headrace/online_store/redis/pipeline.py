"""Reads hashes over one connection: commands of one turn of the event loop are sent in one write.

    one turn:  read(c1)  read(c2)  read(c3) ──▶ one write ──▶ Redis ──▶ replies, in the order of the commands

redis-py's asyncio client costs three times as much per read: it takes a connection per read and awaits each reply.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.asyncio.connection import parse_url
from redis.exceptions import RedisError, ResponseError

from headrace.online_store.redis.hash_reader import HashReader, RedisCommand

ANSWER_SECONDS = 1.0
TIMEOUT_CHECK_SECONDS = 0.25
RETRY_SECONDS = 0.2
MOST_WAITING = 20_000
NO_REPLY_YET = object()


class RedisOverloadedError(RedisError):
    """More reads are pending than Redis can answer soon."""


class PipelinedHashReader(HashReader):
    """Reads hashes over one connection, opened on first use and reopened after a loss."""

    def __init__(self, url: str) -> None:
        self._connection_options = parse_url(url)
        self._connection: _PipelinedConnection | None = None
        self._open_lock = asyncio.Lock()
        self._last_failure: tuple[float, BaseException] | None = None

    async def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = await self._open()
        return await connection.execute(commands)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            await asyncio.sleep(0)  # its socket is closed in the loop's next turn, which may be the last

    async def _open(self) -> "_PipelinedConnection":
        async with self._open_lock:
            if self._connection is None or not self._connection.is_open:
                self._raise_recent_failure()
                self._connection = await self._connect()
            return self._connection

    def _raise_recent_failure(self) -> None:
        """Callers that waited for a failed attempt fail with it, instead of trying once each."""
        if self._last_failure is not None and asyncio.get_running_loop().time() - self._last_failure[0] < RETRY_SECONDS:
            raise ConnectionError(str(self._last_failure[1]))

    async def _connect(self) -> "_PipelinedConnection":
        loop = asyncio.get_running_loop()
        host, port = self._connection_options.get("host", "localhost"), self._connection_options.get("port", 6379)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                _, connection = await loop.create_connection(_PipelinedConnection, host, port)
                await connection.execute(_handshake_commands(**self._connection_options))
        except (OSError, RedisError) as failure:
            self._last_failure = loop.time(), failure
            raise
        return connection


def _handshake_commands(
    username: str = "default", password: str | None = None, db: int = 0, **_: object
) -> list[RedisCommand]:
    """RESP3, in which a hash is a map; the credentials; and the database."""
    auth = () if password is None else ("AUTH", username, password)
    return [("HELLO", 3, *auth), ("SELECT", db)]


class _CommandBatch:
    """Commands that were sent together, and their replies so far."""

    __slots__ = ("expected_count", "future", "replies", "sent_at")

    def __init__(self, future: "asyncio.Future[list[Any]]", expected_count: int, sent_at: float) -> None:
        self.future, self.expected_count, self.sent_at = future, expected_count, sent_at
        self.replies: list[Any] = []

    def resolve(self) -> None:
        if self.future.done():  # the caller was cancelled
            return
        error_reply = next((reply for reply in self.replies if isinstance(reply, hiredis.HiredisError)), None)
        if error_reply is None:
            self.future.set_result(self.replies)
        else:
            self.future.set_exception(ResponseError(str(error_reply)))


class _PipelinedConnection(asyncio.Protocol):
    """One connection: commands are sent together, replies arrive in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=NO_REPLY_YET)
        self._batches: deque[_CommandBatch] = deque()
        self._unsent: list[bytes] = []
        self._waiting_count = 0
        self._transport: asyncio.Transport | None = None
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def execute(self, commands: Sequence[RedisCommand]) -> "asyncio.Future[list[Any]]":
        """The replies to some commands."""
        if self._waiting_count > MOST_WAITING:
            raise RedisOverloadedError(f"{self._waiting_count} reads are already waiting for Redis")
        future = self._loop.create_future()
        if not commands:
            future.set_result([])
            return future
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]  # its stub
        self._waiting_count += len(commands)
        self._batches.append(_CommandBatch(future, len(commands), self._loop.time()))
        return future

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream's
        self._transport = transport
        self._timeout_timer = self._loop.call_later(TIMEOUT_CHECK_SECONDS, self._check_timeout)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not NO_REPLY_YET:
            batch = self._batches[0]
            batch.replies.append(reply)
            if len(batch.replies) == batch.expected_count:
                self._batches.popleft()
                self._waiting_count -= batch.expected_count
                batch.resolve()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        self._transport = None
        for batch in self._batches:
            if not batch.future.done():
                batch.future.set_exception(self._failure or exc or ConnectionError("the connection was closed"))
        self._batches.clear()

    def _send(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _check_timeout(self) -> None:
        """Replies arrive in order: if the oldest command waits too long, all do, and the connection is aborted."""
        if self._batches and self._loop.time() - self._batches[0].sent_at > ANSWER_SECONDS:
            self._failure = TimeoutError(f"no answer in {ANSWER_SECONDS:g} s")
            if self._transport is not None:
                self._transport.abort()
        else:
            self._timeout_timer = self._loop.call_later(TIMEOUT_CHECK_SECONDS, self._check_timeout)
