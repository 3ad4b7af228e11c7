"""The HTTP server: its listening socket, and the timeouts of its connections.

a connection   ├─ request sent ─┼── handler ──┼─ response read ─┤ idle ├─ next request …
               TRANSFER_SECONDS  route timeout TRANSFER_SECONDS   IDLE_SECONDS

A transfer may take longer as long as bytes move fast enough: see `transfer_rate`.
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
from headrace.server.auth.rate_limit import client_network
from headrace.server.http.connection import HttpConnection
from headrace.server.http.responses import Response, ServiceUnavailable
from headrace.server.http.routing import Router

MAX_CONNECTIONS = 2000
MAX_CONNECTIONS_PER_CLIENT = 500
TRANSFER_SECONDS = 10.0
TLS_HANDSHAKE_SECONDS, TLS_SHUTDOWN_SECONDS = 5.0, 2.0
IDLE_SECONDS = 75.0
TICK_SECONDS, TICKS_PER_SWEEP, GRACE_TICKS = 0.1, 10, 20
BACKLOG = 2048
SERVER_FULL = ServiceUnavailable(
    f"The server has {MAX_CONNECTIONS} connections open and takes no more. Ask again in a moment."
)
CLIENT_FULL = ServiceUnavailable(
    f"Your address has {MAX_CONNECTIONS_PER_CLIENT} connections open and gets no more. Use those there are."
)
# libuv accepts one connection per turn of the loop and listening socket: the server listens on this many copies of it.
ACCEPTS_PER_LOOP_TURN = 16


class ListenFailed(HeadraceError):
    """The server cannot listen on its address."""


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback address, which only this machine can use."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int, is_shared: bool = False) -> socket.socket:
    """A socket bound to the address; raises ListenFailed with the cause. Other processes can bind a shared one too."""
    try:
        family, socket_type, protocol, _, address = _resolve(host, port)
        bound_socket = socket.socket(family, socket_type, protocol)
        bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound_socket.bind(address)
    except OSError as problem:
        cause = "another program listens there" if problem.errno == errno.EADDRINUSE else problem.strerror
        raise ListenFailed(
            f"The server cannot listen on {host}:{port}: {cause}. Choose another address with --http HOST:PORT."
        ) from problem
    return bound_socket


def is_reachable(host: str, port: int) -> bool:
    """Whether other machines could reach a server on this address; `bind` rejects an address that does not resolve."""
    try:
        return not is_loopback(str(_resolve(host, port)[4][0]))
    except OSError:
        return True


def _resolve(host: str, port: int) -> Any:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]


class HttpServer:
    """Serves HTTP until an event is set; its owner handles signals."""

    def __init__(self, router: Router, stop: threading.Event, tls: ssl.SSLContext | None = None) -> None:
        self.router, self._stop, self._tls = router, stop, tls
        self._connections: dict[HttpConnection, str] = {}
        self._connections_by_network: Counter[str] = Counter()
        self.date_header = b""

    async def serve(self, listen_socket: socket.socket) -> None:
        """Serve connections on a bound socket; several copies of it accept a backlog fast after a long turn."""
        self._update_date()
        loop, socket_copies = (
            asyncio.get_running_loop(),
            [listen_socket.dup() for _ in range(ACCEPTS_PER_LOOP_TURN - 1)],
        )
        timeouts = {"ssl_handshake_timeout": TLS_HANDSHAKE_SECONDS, "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS}
        tls_options: dict[str, Any] = {"ssl": self._tls, **timeouts} if self._tls else {}
        servers = [
            await loop.create_server(lambda: HttpConnection(self), sock=accept_socket, backlog=BACKLOG, **tls_options)
            for accept_socket in (listen_socket, *socket_copies)
        ]
        ticks = 0
        while not self._stop.is_set():
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1
            self._update_date()
            if ticks % TICKS_PER_SWEEP == 0:
                self._close_slow_connections()
        for server in servers:
            server.close()
        await self._close_all()

    def register(self, connection: HttpConnection, address: str) -> Response | None:
        """Register a new connection; the response that rejects its requests if the server or its network has too many.

        Loopback addresses and proxies have no limit of their own: a proxy's connections carry many clients.
        """
        network = client_network(address)
        self._connections[connection] = network
        self._connections_by_network[network] += 1
        if len(self._connections) > MAX_CONNECTIONS:
            return SERVER_FULL.response
        is_limited = self.router.limits_per_client and not is_loopback(address)
        return (
            CLIENT_FULL.response
            if is_limited and self._connections_by_network[network] > MAX_CONNECTIONS_PER_CLIENT
            else None
        )

    def unregister(self, connection: HttpConnection) -> None:
        """Remove a closed connection."""
        network = self._connections.pop(connection)
        self._connections_by_network[network] -= 1
        if not self._connections_by_network[network]:
            del self._connections_by_network[network]

    def _update_date(self) -> None:
        self.date_header = formatdate(time.time(), usegmt=True).encode()

    def _close_slow_connections(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            connection.cancel_overdue_response(now)
            if connection.is_too_slow(now, TRANSFER_SECONDS) or connection.is_idle_since(
                now - IDLE_SECONDS - TRANSFER_SECONDS
            ):
                connection.abort()
            elif connection.is_idle_since(now - IDLE_SECONDS):
                connection.close()

    async def _close_all(self) -> None:
        """Close all connections; requests in flight have a short grace period."""
        for connection in list(self._connections):
            connection.close()
        for _ in range(GRACE_TICKS):
            if self._connections:
                await asyncio.sleep(TICK_SECONDS)
        for connection in list(self._connections):
            connection.abort()
