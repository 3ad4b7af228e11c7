"""Notifications sent to a webhook, by a thread of its own: whatever its host does, nobody waits for it."""

import http.client
import logging
import queue
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import orjson

from headrace.watch.addresses import Network, RefusedAddress
from headrace.watch.poster import Patience, Poster, Refused
from headrace.watch.tell import Notification

LOGGER = logging.getLogger("headrace.alerts")
MOST_WAITING = 1000


class Webhook:
    """Posts notifications one after the other; what is done with is handed back by `done`."""

    def __init__(
        self, url: str, allowed: Sequence[Network] = (), ca: Path | None = None, patience: Patience | None = None
    ) -> None:
        self._patience = patience or Patience()
        self._poster = Poster(url, allowed, ca, self._patience.attempt_seconds)
        self.host = self._poster.host
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
                self._poster.post(orjson.dumps(notification.body))
            except (RefusedAddress, Refused) as refused:
                return self._give_up("refused", str(refused))
            except (OSError, http.client.HTTPException) as failed:
                self.outcomes["retried"] += 1
                why = self._poster.why(failed)
                LOGGER.warning("The webhook at %s: %s (attempt %d)", self.host, why, attempt + 1)
            else:
                self.outcomes["delivered"] += 1
                return True
            if self._stopping.wait(self._patience.pause(attempt)):
                return False
        return self._give_up("failed", f"{self._patience.attempts} attempts failed")

    def _give_up(self, outcome: str, why: str) -> bool:
        self.outcomes[outcome] += 1
        LOGGER.error("The webhook at %s was not told: %s", self.host, why)
        return True
