"""The HTTP server itself: where it listens, and how long its connections may last.

a connection   ├─ request sent ─┼─ answer made ─┼─ answer taken ─┤ idle ├─ next request …
               EXCHANGE_SECONDS  limit of route  EXCHANGE_SECONDS  IDLE_SECONDS

Sending and taking may go on for longer as long as bytes move: see `transfer_pace`.
"""

import asyncio
import errno
import ipaddress
import socket
import ssl
import threading
import time
from collections import Counter
from email.utils import formatdate
from typing import Any

from headrace.errors import HeadraceError
from headrace.serve.answers import Answer, Unavailable
from headrace.serve.connection import Connection
from headrace.serve.http import Http
from headrace.serve.rates import neighbourhood

MOST_CONNECTIONS = 2000
MOST_OF_ONE = 500
EXCHANGE_SECONDS = 10.0
HANDSHAKE_SECONDS, GOODBYE_SECONDS = 5.0, 2.0
IDLE_SECONDS = 75.0
TICK_SECONDS, TICKS_A_SWEEP, GRACE_TICKS = 0.1, 10, 20
BACKLOG = 2048
FULL = Unavailable(f"The server has {MOST_CONNECTIONS} connections open and takes no more. Ask again in a moment.")
FULL_OF_ONE = Unavailable(f"Your address has {MOST_OF_ONE} connections open and gets no more. Use those there are.")
# libuv takes one new connection a turn of the loop from a listening socket: of so many copies of it, so many.
ACCEPTED_A_TURN = 16


class AddressTaken(HeadraceError):
    """The server cannot listen where it should."""


def is_loopback(address: str) -> bool:
    """Whether only this machine can come from, or reach, an address."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int, is_shared: bool = False) -> socket.socket:
    """A socket bound to the address, or the reason there is none; one that is shared may be bound by others too."""
    try:
        family, kind, protocol, _, address = _resolved(host, port)
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


def is_reachable(host: str, port: int) -> bool:
    """Whether other machines could reach a server of this address; one that leads nowhere is refused by `bind`."""
    try:
        return not is_loopback(str(_resolved(host, port)[4][0]))
    except OSError:
        return True


def _resolved(host: str, port: int) -> Any:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]


class StoppableServer:
    """Answers until an event is set; signals are its owner's business."""

    def __init__(self, http: Http, stop: threading.Event, tls: ssl.SSLContext | None = None) -> None:
        self.http, self._stop, self._tls = http, stop, tls
        self._connections: dict[Connection, str] = {}
        self._of_one: Counter[str] = Counter()
        self.date = b""

    async def serve(self, listening: socket.socket) -> None:
        """Answer whoever connects to a bound socket; who does while a turn takes long soon gets in all the same."""
        self._tell_date()
        loop, copies = asyncio.get_running_loop(), [listening.dup() for _ in range(ACCEPTED_A_TURN - 1)]
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": GOODBYE_SECONDS}
        tls: dict[str, Any] = {"ssl": self._tls, **limits} if self._tls else {}
        servers = [
            await loop.create_server(lambda: Connection(self), sock=one, backlog=BACKLOG, **tls)
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

    def enter(self, connection: Connection, address: str) -> Answer | None:
        """A new connection; what it is told where there are too many, or too many of its address.

        This machine may have as many as there are, and so may a proxy: it speaks for many.
        """
        near = neighbourhood(address)
        self._connections[connection] = near
        self._of_one[near] += 1
        if len(self._connections) > MOST_CONNECTIONS:
            return FULL.answer
        is_bounded = self.http.holds_back and not is_loopback(address)
        return FULL_OF_ONE.answer if is_bounded and self._of_one[near] > MOST_OF_ONE else None

    def leave(self, connection: Connection) -> None:
        """A connection has ended."""
        near = self._connections.pop(connection)
        self._of_one[near] -= 1
        if not self._of_one[near]:
            del self._of_one[near]

    def _tell_date(self) -> None:
        self.date = formatdate(time.time(), usegmt=True).encode()

    def _end_slow_ones(self) -> None:
        now = asyncio.get_running_loop().time()
        for one in list(self._connections):
            one.end_overdue_work(now)
            if one.is_too_slow(now, EXCHANGE_SECONDS) or one.is_idle_since(now - IDLE_SECONDS - EXCHANGE_SECONDS):
                one.abort()
            elif one.is_idle_since(now - IDLE_SECONDS):
                one.end()

    async def _end_all(self) -> None:
        """Let those at work be answered, for a moment."""
        for one in list(self._connections):
            one.end()
        for _ in range(GRACE_TICKS):
            if self._connections:
                await asyncio.sleep(TICK_SECONDS)
        for one in list(self._connections):
            one.abort()
