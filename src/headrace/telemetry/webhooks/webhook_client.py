"""Posts to a webhook over https, to an address that was checked, with retries."""

import http.client
import math
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.telemetry.webhooks.allowed_addresses import BadWebhook, Network, require_https, resolve_allowed_addresses
from headrace.telemetry.webhooks.pinned_post import PinnedConnection, post, time_limit

HEADERS = {"content-type": "application/json", "user-agent": "headrace", "connection": "close"}


@dataclass(frozen=True)
class RetryPolicy:
    """The time limit of one attempt, the number of attempts, and the first pause."""

    attempt_seconds: float = 10.0
    max_attempts: int = 5
    first_pause_seconds: float = 1.0
    max_pause_seconds: float = 60.0

    def next_pause_seconds(self, attempt: int) -> float:
        """Exponential back-off with full jitter: clients that failed together do not retry together."""
        max_pause = min(self.max_pause_seconds, math.ldexp(self.first_pause_seconds, attempt))
        return random.uniform(0.5, 1.0) * max_pause  # noqa: S311  # no secret


class WebhookRefused(Exception):
    """The host refused the request, and a retry would change nothing."""

    def __init__(self, status: int, hint: str) -> None:
        super().__init__(f"it answered {status}{hint}")
        self.status = status


class WebhookClient:
    """Posts to one address; its path may be a secret and is in no log line or error."""

    def __init__(self, url: str, allowed_networks: Sequence[Network], ca: Path | None, attempt_seconds: float) -> None:
        self.host, self._port, self._path = require_https(url)
        self._allowed_networks, self._tls_context, self._attempt_seconds = (
            tuple(allowed_networks),
            _create_tls_context(ca),
            attempt_seconds,
        )

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """One attempt; raises where it was not accepted."""
        _raise_for_status(post(self._connection(), self._path, body, HEADERS | dict(headers or {})).status)

    def check_reachable(self) -> None:
        """Check that the host accepts a connection, without sending a request."""
        connection = self._connection()
        with time_limit(connection):
            connection.connect()

    def describe_failure(self, error: Exception) -> str:
        """The failure, without the address a library may have quoted."""
        return f"{type(error).__name__} {error}".replace(self._path, "/…").strip()

    def _connection(self) -> PinnedConnection:
        addresses = partial(resolve_allowed_addresses, self.host, self._port, self._allowed_networks)
        return PinnedConnection((self.host, self._port), addresses, self._tls_context, self._attempt_seconds)


def _raise_for_status(status: int) -> None:
    if 200 <= status < 300:
        return
    if status >= 500 or status in {408, 429}:
        raise http.client.HTTPException(f"it answered {status}")
    hint = ", a redirect, which is not followed: give the address it leads to" if 300 <= status < 400 else ""
    raise WebhookRefused(status, hint)


def _create_tls_context(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as error:
        raise BadWebhook(
            f"--webhook-ca {str(ca)!r} cannot be read: {error}. Give a PEM file of certificates."
        ) from None
