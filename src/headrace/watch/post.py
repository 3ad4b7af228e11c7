"""One POST to another host, ended as a whole after so long, however slowly it answers."""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

LARGEST_ANSWER = 64 << 10


class Posted(NamedTuple):
    """What was answered, as far as it came in time."""

    status: int
    body: bytes


class PinnedConnection(http.client.HTTPConnection):
    """A connection to an address that was looked at: the name is resolved once, and connected to as it was."""

    def __init__(
        self,
        place: tuple[str, int],
        addresses: Callable[[], Sequence[str]],
        tls: ssl.SSLContext | None,
        attempt_seconds: float,
    ) -> None:
        super().__init__(*place, timeout=attempt_seconds)
        self.default_port = 80 if tls is None else 443  # not told in Host
        self._addresses, self._tls, self.attempt_seconds = addresses, tls, attempt_seconds
        self.is_ended = False

    def connect(self) -> None:
        failure: OSError = OSError("the name has no address")
        for address in self._addresses():
            try:
                plain = socket.create_connection((address, self.port), self.timeout)
            except OSError as unreachable:
                failure = unreachable
                continue
            self._take(plain)
            return
        raise failure

    def end(self) -> None:
        """Break off whatever is going on."""
        self.is_ended = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _take(self, plain: socket.socket) -> None:
        """Agree on TLS in a step of its own, so that `end` finds the socket meanwhile."""
        secured = None
        if self._tls is not None:
            secured = self._tls.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = secured or plain
        if self.is_ended:
            raise TimeoutError("timed out")
        if secured is not None:
            secured.do_handshake()


def post(connection: PinnedConnection, path: str, body: bytes, headers: Mapping[str, str]) -> Posted:
    """One attempt; nobody is followed to another address."""
    with in_time(connection):
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        if connection.is_ended:
            raise TimeoutError("timed out")
        return Posted(answer.status, _came(answer))


@contextmanager
def in_time(connection: PinnedConnection) -> Iterator[None]:
    """Ends whatever is done with a connection after so long, however slowly the host answers."""
    ending = threading.Timer(connection.attempt_seconds, connection.end)
    ending.daemon = True
    ending.start()
    try:
        yield
    finally:
        ending.cancel()
        connection.close()


def _came(answer: http.client.HTTPResponse) -> bytes:
    """What came of its body in time; the status is known without it."""
    try:
        return answer.read(LARGEST_ANSWER)
    except (OSError, http.client.HTTPException):
        return b""
