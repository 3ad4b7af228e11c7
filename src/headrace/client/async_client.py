"""The asyncio client: `await hr.AsyncClient("http://127.0.0.1:8080").features(CardSpend, ["c1"])`.

A connection carries one request at a time; the pool has a fixed number of connections, and a request without a free
one waits.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httptools

from headrace.client import protocol
from headrace.client.protocol import (
    ClientRequest,
    FeatureRow,
    HotReport,
    Scored,
    ServerAddress,
    ServerUnreachable,
    SqlAnswer,
)
from headrace.declare.features.view import View
from headrace.declare.models.model import Model

READ_BYTES = 1 << 16
ResultT = TypeVar("ResultT")


class AsyncClient:
    """A client of one server for one event loop; it sends as many concurrent requests as it has `connections`.

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
        self._address, self._timeout_s = protocol.parse_address(url, ca), timeout_s
        headers = {"Host": _host_header(self._address), **protocol.build_headers(token)}
        self._header_text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._connection_slots = asyncio.Semaphore(connections)
        self._idle_connections: list[_ClientConnection] = []

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
        """The features of entities, now or at a time; a key is a value, or a list of values in the order of `by`."""
        return await self._send(protocol.build_features_request(view, keys, at, request))

    async def predict(self, model: Model | str, event: Mapping[str, Any], *, include: bool = False) -> Scored:
        """The score of an event; with `include` the event is added to its own windows first, as in the stream."""
        return await self._send(protocol.build_predict_request(model, event, include))

    async def hot(self) -> HotReport:
        """The heaviest keys of each stream and view, and the skew of partitions, from `GET /hot`."""
        return await self._send(protocol.build_hot_request())

    async def sql(self, query: str, *, limit: int | None = None) -> SqlAnswer:
        """The result of a query over the live tables and the lake; values have their JSON types."""
        return await self._send(protocol.build_sql_request(query, limit))

    async def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the server."""
        return await self._send(protocol.build_openapi_request())

    async def close(self) -> None:
        """Close the idle connections; the next request opens one again."""
        while self._idle_connections:
            await self._idle_connections.pop().close()

    async def _send(self, request: ClientRequest[ResultT]) -> ResultT:
        async with self._connection_slots:
            try:
                async with asyncio.timeout(self._timeout_s):
                    status, response_body = await self._send_with_retry(request)
            except (OSError, EOFError, httptools.HttpParserError) as failure:  # a timeout is an OSError too
                reason = failure if str(failure) else f"no answer within {self._timeout_s:g} s"
                raise ServerUnreachable(self._address.url, reason) from failure
        return request.parse_response(status, response_body)

    async def _send_with_retry(self, request: ClientRequest[ResultT]) -> tuple[int, bytes]:
        """Send a request; a pooled connection may have been closed meanwhile, so an idempotent request is retried."""
        request_bytes = self._encode_request(request)
        while (connection := self._take_idle_connection()) is not None:
            try:
                return await self._send_over(connection, request_bytes)
            except (ConnectionError, EOFError):
                if not request.is_idempotent:
                    raise
        return await self._send_over(await _ClientConnection.open(self._address), request_bytes)

    async def _send_over(self, connection: "_ClientConnection", request_bytes: bytes) -> tuple[int, bytes]:
        """Send a request over a connection, which returns to the pool only if nothing failed."""
        try:
            response = await connection.send(request_bytes)
        except BaseException:
            connection.drop()
            raise
        if connection.is_open:
            self._idle_connections.append(connection)
        else:
            connection.drop()
        return response

    def _take_idle_connection(self) -> "_ClientConnection | None":
        while self._idle_connections:
            connection = self._idle_connections.pop()
            if connection.is_open:
                return connection
            connection.drop()
        return None

    def _encode_request(self, request: ClientRequest[ResultT]) -> bytes:
        body = request.body or b""
        request_line = f"{request.method} {self._address.path}{request.path} HTTP/1.1\r\n"
        return f"{request_line}{self._header_text}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _ClientConnection:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._is_keep_alive = True

    @classmethod
    async def open(cls, address: ServerAddress) -> "_ClientConnection":
        return cls(*await asyncio.open_connection(address.host, address.port, ssl=address.tls))

    @property
    def is_open(self) -> bool:
        return self._is_keep_alive and not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, request_bytes: bytes) -> tuple[int, bytes]:
        self._writer.write(request_bytes)
        await self._writer.drain()
        response = _ResponseParser()
        while not response.is_complete:
            chunk = await self._reader.read(READ_BYTES)
            if not chunk:
                raise EOFError("the server closed the connection before it had answered")
            response.parser.feed_data(chunk)
        self._is_keep_alive = response.is_keep_alive
        return response.parser.get_status_code(), bytes(response.body)

    def drop(self) -> None:
        self._writer.close()

    async def close(self) -> None:
        self.drop()
        try:
            await self._writer.wait_closed()
        except OSError:  # the other end closed it first
            return


class _ResponseParser:
    """The state of a partly received response; the method names are those that the parser calls."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.is_complete = self.is_keep_alive = False

    def on_body(self, chunk: bytes) -> None:
        self.body += chunk

    def on_message_complete(self) -> None:
        self.is_complete, self.is_keep_alive = True, self.parser.should_keep_alive()  # the parser forgets it afterwards


def _host_header(address: ServerAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
