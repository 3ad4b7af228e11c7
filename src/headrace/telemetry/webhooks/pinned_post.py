"""One POST with a limit on its whole duration, however slowly the host answers."""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

MAX_RESPONSE_BYTES = 64 << 10


class PostResponse(NamedTuple):
    """The response, as far as it came in time."""

    status: int
    body: bytes


class PinnedConnection(http.client.HTTPConnection):
    """A connection to an address that was checked: the name is resolved once, and the connection uses that result."""

    def __init__(
        self,
        host_and_port: tuple[str, int],
        addresses: Callable[[], Sequence[str]],
        tls: ssl.SSLContext | None,
        attempt_seconds: float,
    ) -> None:
        super().__init__(*host_and_port, timeout=attempt_seconds)
        self.default_port = 80 if tls is None else 443  # left out of the Host header
        self._addresses, self._tls, self.attempt_seconds = addresses, tls, attempt_seconds
        self.is_aborted = False

    def connect(self) -> None:
        failure: OSError = OSError("the name has no address")
        for address in self._addresses():
            try:
                plain_socket = socket.create_connection((address, self.port), self.timeout)
            except OSError as error:
                failure = error
                continue
            self._attach_socket(plain_socket)
            return
        raise failure

    def abort(self) -> None:
        """Abort whatever is in progress."""
        self.is_aborted = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _attach_socket(self, plain_socket: socket.socket) -> None:
        """Do the TLS handshake as a separate step, so that `abort` finds the socket meanwhile."""
        tls_socket = None
        if self._tls is not None:
            tls_socket = self._tls.wrap_socket(plain_socket, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = tls_socket or plain_socket
        if self.is_aborted:
            raise TimeoutError("timed out")
        if tls_socket is not None:
            tls_socket.do_handshake()


def post(connection: PinnedConnection, path: str, body: bytes, headers: Mapping[str, str]) -> PostResponse:
    """One attempt; redirects are not followed."""
    with time_limit(connection):
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        if connection.is_aborted:
            raise TimeoutError("timed out")
        return PostResponse(response.status, _read_body(response))


@contextmanager
def time_limit(connection: PinnedConnection) -> Iterator[None]:
    """Abort whatever a connection does after the time limit, however slowly the host answers."""
    timer = threading.Timer(connection.attempt_seconds, connection.abort)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        connection.close()


def _read_body(response: http.client.HTTPResponse) -> bytes:
    """As much of the body as came in time; the status is known without it."""
    try:
        return response.read(MAX_RESPONSE_BYTES)
    except (OSError, http.client.HTTPException):
        return b""
