"""The HTTP server itself: uvicorn, with bounds on what a client may take."""

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.errors import HeadraceError
from headrace.serve.answers import Answer, BadRequest, Unavailable
from headrace.serve.http import CONNECTION, Http, respond
from headrace.serve.overload import Line

MOST_CONNECTIONS = 2000
EXCHANGE_SECONDS = 10.0
IDLE_SECONDS = 75
LARGEST_HEAD = 1 << 16
FULL = Unavailable(f"The server has {MOST_CONNECTIONS} connections open and takes no more. Ask again in a moment.")
CLOSE = (b"connection", b"close")


class AddressTaken(HeadraceError):
    """The server cannot listen where it should."""


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address, or the reason there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as problem:
        cause = "another program listens there" if problem.errno == errno.EADDRINUSE else problem.strerror
        raise AddressTaken(
            f"The server cannot listen on {host}:{port}: {cause}. Choose another address with --http HOST:PORT."
        ) from problem
    return bound


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's connection, which a client cannot hold open by being slow or fill with headers.

    ├─ request sent ─┼─ answered and taken ─┤ idle ├─ next request …
    └──────── EXCHANGE_SECONDS ─────────────┘      (uvicorn itself ends an idle one)
    """

    busy_since: float | None = None
    begun_at = 0.0
    ahead = 0
    _unanswered = 0
    _head_bytes: int | None = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._line = self.config.app.line if isinstance(self.config.app, Http) else Line()
        self.busy_since = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            self.app = _full

    def data_received(self, data: bytes) -> None:
        if self.busy_since is None:
            self.busy_since = self.loop.time()
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > LARGEST_HEAD:
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.begun_at, self.ahead = perf_counter(), self._line.in_line
        self._line.in_line += 1
        self._unanswered += 1
        self.scope[CONNECTION] = self  # type: ignore[literal-required]  # a key of ours

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.busy_since = None
        self._line.in_line -= 1
        self._unanswered -= 1
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._line.in_line -= self._unanswered
        self._unanswered = 0
        super().connection_lost(exc)

    def hold(self, seconds: float) -> None:
        """Read nothing for so long: what the client sends meanwhile waits in its socket."""
        if not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """What cannot be parsed at all is refused in JSON, as everything else."""
        if not self.transport.is_closing():
            body = BadRequest(f"{msg} Send HTTP/1.1.").answer.body
            head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))
            self.transport.close()

    def end_if_busy_since(self, before: float) -> None:
        """Cut the connection off if its exchange began before a time."""
        if self.busy_since is not None and self.busy_since < before:
            self.transport.abort()


class StoppableServer(uvicorn.Server):
    """uvicorn, run until an event is set; signals are its owner's business."""

    def __init__(self, http: Http, stop: threading.Event) -> None:
        super().__init__(
            uvicorn.Config(
                http,
                http=BoundedProtocol,
                loop="uvloop",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=2,
            )
        )
        self._stop = stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: uvicorn would raise them again after its shutdown."""
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._end_slow_exchanges()
        return await super().on_tick(counter) or self._stop.is_set()

    def _end_slow_exchanges(self) -> None:
        before = asyncio.get_running_loop().time() - EXCHANGE_SECONDS
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.end_if_busy_since(before)


async def _full(_scope: Any, _receive: Any, send: Any) -> None:
    refused = FULL.answer
    await respond(send, Answer(refused.status, refused.body, headers=(CLOSE,)))
