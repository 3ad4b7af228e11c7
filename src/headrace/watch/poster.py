"""Posts to a webhook: over https, to an address that was looked at, again and again if need be."""

import http.client
import math
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.watch.addresses import BadWebhook, Network, reachable, require_https
from headrace.watch.post import PinnedConnection, in_time, post

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
        _judge(post(self._connection(), self._path, body, HEADERS | dict(headers or {})).status)

    def reach(self) -> None:
        """See whether anybody is there, without a word."""
        connection = self._connection()
        with in_time(connection):
            connection.connect()

    def why(self, failed: Exception) -> str:
        """What failed, without what a library may have quoted of the address."""
        return f"{type(failed).__name__} {failed}".replace(self._path, "/…").strip()

    def _connection(self) -> PinnedConnection:
        addresses = partial(reachable, self.host, self._port, self._allowed)
        return PinnedConnection((self.host, self._port), addresses, self._tls, self._attempt_seconds)


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
