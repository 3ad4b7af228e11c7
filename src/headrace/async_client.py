"""The same questions from asyncio: `await hr.AsyncClient("http://127.0.0.1:8080").features(CardSpend, ["c1"])`.

One question at a time goes over a connection; so many connections are kept, and whoever finds none free waits.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httptools

from headrace import questions
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.questions import Address, FeatureRow, HotReport, Question, Scored, ServerUnreachable, SqlAnswer

AT_ONCE = 1 << 16
Told = TypeVar("Told")


class AsyncClient:
    """A client of one server for one event loop; as many questions at once as it has `connections`.

    Without `token=`, the one in HEADRACE_TOKEN is sent, if there is one; `ca=` is a PEM file of certificates to trust.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = 10.0,
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        connections: int = 8,
    ) -> None:
        self._address, self._timeout_s = questions.address_of(url, ca), timeout_s
        told = {"Host": _host(self._address), **questions.headers_of(token)}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self._room = asyncio.Semaphore(connections)
        self._idle: list[_Line] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def features(
        self,
        view: View | type,
        keys: Sequence[Any],
        *,
        at: datetime | str | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> list[FeatureRow]:
        """The features of entities, now or at a time; a key is a value, or a list of them in the order of `by`."""
        return await self._ask(questions.features_of(view, keys, at, request))

    async def predict(self, model: Model | str, event: Mapping[str, Any], *, include: bool = False) -> Scored:
        """The score of an event; with `include` it is folded into its own windows first, as the stream does."""
        return await self._ask(questions.score_of(model, event, include))

    async def hot(self) -> HotReport:
        """The heaviest keys of each stream and view, and how evenly partitions are used, as `GET /hot` tells them."""
        return await self._ask(questions.hot())

    async def sql(self, query: str, *, limit: int | None = None) -> SqlAnswer:
        """The answer to a query over the live tables and the lake; values are as JSON has them."""
        return await self._ask(questions.sql_of(query, limit))

    async def openapi(self) -> dict[str, Any]:
        """What the server can be asked, as OpenAPI has it."""
        return await self._ask(questions.openapi())

    async def close(self) -> None:
        """Close the connections that are idle; the next question opens one again."""
        while self._idle:
            await self._idle.pop().close()

    async def _ask(self, question: Question[Told]) -> Told:
        async with self._room:
            try:
                async with asyncio.timeout(self._timeout_s):
                    status, answered = await self._answered(question)
            except (OSError, EOFError, httptools.HttpParserError) as failure:  # a timeout is an OSError too
                why = failure if str(failure) else f"no answer within {self._timeout_s:g} s"
                raise ServerUnreachable(self._address.url, why) from failure
        return question.answer(status, answered)

    async def _answered(self, question: Question[Told]) -> tuple[int, bytes]:
        """Ask; a kept connection may have been closed meanwhile, so a safe question that fails is asked anew."""
        sent = self._sent(question)
        while (line := self._kept()) is not None:
            try:
                return await self._over(line, sent)
            except (ConnectionError, EOFError):
                if not question.is_safe:
                    raise
        return await self._over(await _Line.open(self._address), sent)

    async def _over(self, line: "_Line", sent: bytes) -> tuple[int, bytes]:
        """What is answered over a connection, which is kept only where everything went well."""
        try:
            answered = await line.ask(sent)
        except BaseException:
            line.drop()
            raise
        if line.is_open:
            self._idle.append(line)
        else:
            line.drop()
        return answered

    def _kept(self) -> "_Line | None":
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
            line.drop()
        return None

    def _sent(self, question: Question[Told]) -> bytes:
        body = question.body or b""
        first = f"{question.method} {self._address.path}{question.path} HTTP/1.1\r\n"
        return f"{first}{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._keeps = True

    @classmethod
    async def open(cls, address: Address) -> "_Line":
        return cls(*await asyncio.open_connection(address.host, address.port, ssl=address.tls))

    @property
    def is_open(self) -> bool:
        return self._keeps and not self._reader.at_eof() and not self._writer.is_closing()

    async def ask(self, sent: bytes) -> tuple[int, bytes]:
        self._writer.write(sent)
        await self._writer.drain()
        answer = _Answer()
        while not answer.is_whole:
            piece = await self._reader.read(AT_ONCE)
            if not piece:
                raise EOFError("the server closed the connection before it had answered")
            answer.parser.feed_data(piece)
        self._keeps = answer.keeps
        return answer.parser.get_status_code(), bytes(answer.body)

    def drop(self) -> None:
        self._writer.close()

    async def close(self) -> None:
        self.drop()
        try:
            await self._writer.wait_closed()
        except OSError:  # it was closed from the other end: that is what was wanted
            return


class _Answer:
    """What has come of an answer; the parser calls it by these names."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.is_whole = self.keeps = False

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.is_whole, self.keeps = True, self.parser.should_keep_alive()  # the parser forgets it afterwards


def _host(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
