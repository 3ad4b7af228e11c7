"""One request to a webhook: pinned to an address that was looked at, over https, ended as a whole after so long."""

import http.client
import math
import random
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.watch.addresses import BadWebhook, Network, reachable, require_https

HEADERS = {"content-type": "application/json", "user-agent": "headrace", "connection": "close"}


@dataclass(frozen=True)
class Patience:
    """How long one attempt may take as a whole, how many there are, and the first pause between two."""

    attempt_seconds: float = 10.0
    attempts: int = 5
    pause_seconds: float = 1.0
    longest_pause_seconds: float = 60.0

    def pause(self, attempt: int) -> float:
        """Twice as long each time, and any part of it: many that failed together do not come back together."""
        longest = min(self.longest_pause_seconds, math.ldexp(self.pause_seconds, attempt))
        return random.uniform(0.5, 1.0) * longest  # noqa: S311  # no secret


class Refused(Exception):
    """The host answered, and asking again would change nothing."""

    def __init__(self, status: int, hint: str) -> None:
        super().__init__(f"it answered {status}{hint}")
        self.status = status


class Poster:
    """Posts to one address; its path may be a secret, and is in no text."""

    def __init__(self, url: str, allowed: Sequence[Network], ca: Path | None, attempt_seconds: float) -> None:
        self.host, self._port, self._path = require_https(url)
        self._allowed, self._tls, self._attempt_seconds = tuple(allowed), _tls(ca), attempt_seconds

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """One attempt; raises where it was not taken."""
        with self._connection() as connection:
            connection.request("POST", self._path, body, HEADERS | dict(headers or {}))
            status = connection.getresponse().status
            if connection.is_ended:
                raise TimeoutError("timed out")
            _judge(status)

    def reach(self) -> None:
        """See whether anybody is there, without a word."""
        with self._connection() as connection:
            connection.connect()

    def why(self, failed: Exception) -> str:
        """What failed, without what a library may have quoted of the address."""
        return f"{type(failed).__name__} {failed}".replace(self._path, "/…").strip()

    @contextmanager
    def _connection(self) -> Iterator["PinnedConnection"]:
        """A connection that is ended after so long, however slowly the host answers."""
        connection = PinnedConnection(self.host, self._port, self._allowed, self._tls, self._attempt_seconds)
        ending = threading.Timer(self._attempt_seconds, connection.end)
        ending.daemon = True
        ending.start()
        try:
            yield connection
        finally:
            ending.cancel()
            connection.close()


class PinnedConnection(http.client.HTTPSConnection):
    """HTTPS to an address that was looked at: the name is resolved once, checked, and connected to as it was."""

    def __init__(
        self, host: str, port: int, allowed: Sequence[Network], tls: ssl.SSLContext, attempt_seconds: float
    ) -> None:
        super().__init__(host, port, timeout=attempt_seconds, context=tls)
        self._allowed, self._tls = tuple(allowed), tls
        self.is_ended = False

    def connect(self) -> None:
        failure: OSError = OSError("the name has no address")
        for address in reachable(self.host, self.port, self._allowed):
            try:
                plain = socket.create_connection((address, self.port), self.timeout)
            except OSError as unreachable:
                failure = unreachable
                continue
            # Agreed on in a step of its own, so that `end` finds the socket meanwhile.
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)
            if self.is_ended:
                raise TimeoutError("timed out")
            self.sock.do_handshake()
            return
        raise failure

    def end(self) -> None:
        """Break off whatever is going on."""
        self.is_ended = True
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if status >= 500 or status in {408, 429}:
        raise http.client.HTTPException(f"it answered {status}")
    hint = ", a redirect, which is not followed: give the address it leads to" if 300 <= status < 400 else ""
    raise Refused(status, hint)


def _tls(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as unreadable:
        raise BadWebhook(
            f"--webhook-ca {str(ca)!r} cannot be read: {unreadable}. Give a PEM file of certificates."
        ) from None
