"""Reading hashes over one connection: what is asked in one turn of the event loop leaves in one write.

    one turn:  read(c1)  read(c2)  read(c3) ──▶ one write ──▶ Redis ──▶ answers, in the order of the questions

redis-py's asyncio client costs three times as much a read: it takes a connection a read and awaits each answer.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.asyncio.connection import parse_url
from redis.exceptions import RedisError, ResponseError

from headrace.store.hashes import Command, Hashes

ANSWER_SECONDS = 1.0
LOOK_SECONDS = 0.25
RETRY_SECONDS = 0.2
MOST_WAITING = 20_000
NOTHING_YET = object()


class Overloaded(RedisError):
    """More questions wait than Redis can answer soon."""


class PipedHashes(Hashes):
    """Hashes over one connection, opened when it is first needed and again when it was lost."""

    def __init__(self, url: str) -> None:
        self._place = parse_url(url)
        self._pipe: _Pipe | None = None
        self._opening = asyncio.Lock()
        self._failed: tuple[float, BaseException] | None = None

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        pipe = self._pipe
        if pipe is None or not pipe.is_open:
            pipe = await self._open()
        return await pipe.ask(commands)

    async def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            await asyncio.sleep(0)  # its socket is closed in the loop's next turn, which may be the last

    async def _open(self) -> "_Pipe":
        async with self._opening:
            if self._pipe is None or not self._pipe.is_open:
                self._raise_recent_failure()
                self._pipe = await self._connected()
            return self._pipe

    def _raise_recent_failure(self) -> None:
        """Those who waited for an attempt that failed do not wait for one each."""
        if self._failed is not None and asyncio.get_running_loop().time() - self._failed[0] < RETRY_SECONDS:
            raise ConnectionError(str(self._failed[1]))

    async def _connected(self) -> "_Pipe":
        loop = asyncio.get_running_loop()
        host, port = self._place.get("host", "localhost"), self._place.get("port", 6379)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                _, pipe = await loop.create_connection(_Pipe, host, port)
                await pipe.ask(_greeting(**self._place))
        except (OSError, RedisError) as failure:
            self._failed = loop.time(), failure
            raise
        return pipe


def _greeting(username: str = "default", password: str | None = None, db: int = 0, **_: object) -> list[Command]:
    """RESP3, in which a hash comes as a map; who we are; and which database."""
    auth = () if password is None else ("AUTH", username, password)
    return [("HELLO", 3, *auth), ("SELECT", db)]


class _Question:
    """Commands that were sent together, and the answers that have come."""

    __slots__ = ("answers", "asked_at", "future", "wanted")

    def __init__(self, future: "asyncio.Future[list[Any]]", wanted: int, asked_at: float) -> None:
        self.future, self.wanted, self.asked_at = future, wanted, asked_at
        self.answers: list[Any] = []

    def settle(self) -> None:
        if self.future.done():  # whoever asked has gone
            return
        refused = next((answer for answer in self.answers if isinstance(answer, hiredis.HiredisError)), None)
        if refused is None:
            self.future.set_result(self.answers)
        else:
            self.future.set_exception(ResponseError(str(refused)))


class _Pipe(asyncio.Protocol):
    """One connection: questions go out together, answers come back in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=NOTHING_YET)
        self._questions: deque[_Question] = deque()
        self._unsent: list[bytes] = []
        self._waiting = 0
        self._transport: asyncio.Transport | None = None
        self._look: asyncio.TimerHandle | None = None
        self._trouble: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, commands: Sequence[Command]) -> "asyncio.Future[list[Any]]":
        """The answers to some commands, once they are there."""
        if self._waiting > MOST_WAITING:
            raise Overloaded(f"{self._waiting} reads wait for Redis already")
        future = self._loop.create_future()
        if not commands:
            future.set_result([])
            return future
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]  # its stub
        self._waiting += len(commands)
        self._questions.append(_Question(future, len(commands), self._loop.time()))
        return future

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a stream's
        self._transport = transport
        self._look = self._loop.call_later(LOOK_SECONDS, self._look_for_silence)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not NOTHING_YET:
            question = self._questions[0]
            question.answers.append(answer)
            if len(question.answers) == question.wanted:
                self._questions.popleft()
                self._waiting -= question.wanted
                question.settle()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        self._transport = None
        for question in self._questions:
            if not question.future.done():
                question.future.set_exception(self._trouble or exc or ConnectionError("the connection was closed"))
        self._questions.clear()

    def _send(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _look_for_silence(self) -> None:
        """Answers come in order: if the oldest question waits too long, all do, and the connection is given up."""
        if self._questions and self._loop.time() - self._questions[0].asked_at > ANSWER_SECONDS:
            self._trouble = TimeoutError(f"no answer in {ANSWER_SECONDS:g} s")
            if self._transport is not None:
                self._transport.abort()
        else:
            self._look = self._loop.call_later(LOOK_SECONDS, self._look_for_silence)
