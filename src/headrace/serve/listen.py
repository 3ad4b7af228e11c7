"""The HTTP server itself: where it listens, and how long its connections may last.

a connection   ├─ request sent ─┼─ answered and taken ─┤ idle ├─ next request …
               └──────── EXCHANGE_SECONDS ─────────────┘ └──┘ IDLE_SECONDS
"""

import asyncio
import errno
import socket
import threading
import time
from email.utils import formatdate

from headrace.errors import HeadraceError
from headrace.serve.answers import Answer, Unavailable
from headrace.serve.connection import Connection
from headrace.serve.http import Http

MOST_CONNECTIONS = 2000
EXCHANGE_SECONDS = 10.0
IDLE_SECONDS = 75.0
TICK_SECONDS, TICKS_A_SWEEP, GRACE_TICKS = 0.1, 10, 20
BACKLOG = 2048
FULL = Unavailable(f"The server has {MOST_CONNECTIONS} connections open and takes no more. Ask again in a moment.")
# libuv takes one new connection a turn of the loop from a listening socket: of so many copies of it, so many.
ACCEPTED_A_TURN = 16


class AddressTaken(HeadraceError):
    """The server cannot listen where it should."""


def bind(host: str, port: int, is_shared: bool = False) -> socket.socket:
    """A socket bound to the address, or the reason there is none; one that is shared may be bound by others too."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError as problem:
        cause = "another program listens there" if problem.errno == errno.EADDRINUSE else problem.strerror
        raise AddressTaken(
            f"The server cannot listen on {host}:{port}: {cause}. Choose another address with --http HOST:PORT."
        ) from problem
    return bound


class StoppableServer:
    """Answers until an event is set; signals are its owner's business."""

    def __init__(self, http: Http, stop: threading.Event) -> None:
        self.http, self._stop = http, stop
        self.connections: set[Connection] = set()
        self.date = b""

    async def serve(self, listening: socket.socket) -> None:
        """Answer whoever connects to a bound socket; who does while a turn takes long soon gets in all the same."""
        self._tell_date()
        loop, copies = asyncio.get_running_loop(), [listening.dup() for _ in range(ACCEPTED_A_TURN - 1)]
        servers = [
            await loop.create_server(lambda: Connection(self), sock=one, backlog=BACKLOG)
            for one in (listening, *copies)
        ]
        ticks = 0
        while not self._stop.is_set():
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1
            self._tell_date()
            if ticks % TICKS_A_SWEEP == 0:
                self._end_slow_ones()
        for server in servers:
            server.close()
        await self._end_all()

    def refusal(self) -> Answer | None:
        """What the newest connection is told where there are too many."""
        return FULL.answer if len(self.connections) > MOST_CONNECTIONS else None

    def _tell_date(self) -> None:
        self.date = formatdate(time.time(), usegmt=True).encode()

    def _end_slow_ones(self) -> None:
        now = asyncio.get_running_loop().time()
        for one in list(self.connections):
            if one.busy_since is not None and one.busy_since < now - EXCHANGE_SECONDS:
                one.abort()
            elif one.busy_since is None and one.idle_since < now - IDLE_SECONDS:
                one.end()

    async def _end_all(self) -> None:
        """Let those at work be answered, for a moment."""
        for one in list(self.connections):
            one.end()
        for _ in range(GRACE_TICKS):
            if self.connections:
                await asyncio.sleep(TICK_SECONDS)
        for one in list(self.connections):
            one.abort()
