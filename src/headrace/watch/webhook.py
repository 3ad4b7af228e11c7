"""Notifications sent to a webhook, by a thread of its own: whatever its host does, nobody waits for it."""

import http.client
import logging
import math
import queue
import random
import ssl
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import orjson

from headrace.watch.addresses import BadWebhook, Network, RefusedAddress, reachable, require_https
from headrace.watch.post import PinnedConnection, post
from headrace.watch.tell import Notification

LOGGER = logging.getLogger("headrace.alerts")
MOST_WAITING = 1000


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


class Webhook:
    """Posts notifications one after the other; what is done with is handed back by `done`."""

    def __init__(
        self, url: str, allowed: Sequence[Network] = (), ca: Path | None = None, patience: Patience | None = None
    ) -> None:
        self.host, self._port, self._path = require_https(url)
        self._allowed, self._patience = tuple(allowed), patience or Patience()
        self._tls = _tls(ca)
        self._waiting: queue.Queue[Notification] = queue.Queue(MOST_WAITING)
        self._done: queue.SimpleQueue[Notification] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self.outcomes: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop between two attempts; what was not sent is sent by the next start."""
        self._stopping.set()
        self._thread.join(2 * self._patience.attempt_seconds)

    def tell(self, notification: Notification) -> bool:
        """Queue a notification; False where too many wait already."""
        try:
            self._waiting.put_nowait(notification)
        except queue.Full:
            self.outcomes["no_room"] += 1
            return False
        return True

    def done(self) -> list[Notification]:
        """Those that were delivered or given up since this was last asked."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._done.get_nowait())
        return found

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                notification = self._waiting.get(timeout=0.1)
            except queue.Empty:
                continue
            if self._deliver(notification):
                self._done.put(notification)

    def _deliver(self, notification: Notification) -> bool:
        """Whether it was delivered or given up; not while stopping."""
        for attempt in range(self._patience.attempts):
            try:
                self._post(orjson.dumps(notification.body))
            except (RefusedAddress, Refused) as refused:
                return self._give_up("refused", str(refused))
            except (OSError, http.client.HTTPException) as failed:
                self.outcomes["retried"] += 1
                why = self._why(failed)
                LOGGER.warning("The webhook at %s: %s (attempt %d)", self.host, why, attempt + 1)
            else:
                self.outcomes["delivered"] += 1
                return True
            if self._stopping.wait(self._patience.pause(attempt)):
                return False
        return self._give_up("failed", f"{self._patience.attempts} attempts failed")

    def _why(self, failed: Exception) -> str:
        """What failed, without what a library may have quoted of the address."""
        return f"{type(failed).__name__} {failed}".replace(self._path, "/…").strip()

    def _give_up(self, outcome: str, why: str) -> bool:
        self.outcomes[outcome] += 1
        LOGGER.error("The webhook at %s was not told: %s", self.host, why)
        return True

    def _post(self, body: bytes) -> None:
        addresses = partial(reachable, self.host, self._port, self._allowed)
        connection = PinnedConnection((self.host, self._port), addresses, self._tls, self._patience.attempt_seconds)
        headers = {"content-type": "application/json", "user-agent": "headrace", "connection": "close"}
        _judge(post(connection, self._path, body, headers).status)


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if status >= 500 or status in {408, 429}:
        raise http.client.HTTPException(f"it answered {status}")
    hint = ", a redirect, which is not followed: give the address it leads to" if 300 <= status < 400 else ""
    raise Refused(f"it answered {status}{hint}")


def _tls(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as unreadable:
        raise BadWebhook(
            f"--webhook-ca {str(ca)!r} cannot be read: {unreadable}. Give a PEM file of certificates."
        ) from None
