"""Sends notifications to a webhook on a thread of its own, so that a slow host blocks no other part."""

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

from headrace.telemetry.alerts.notifications import Notification
from headrace.telemetry.webhooks.allowed_addresses import AddressRefused, Network
from headrace.telemetry.webhooks.webhook_client import RetryPolicy, WebhookClient, WebhookRefused

LOGGER = logging.getLogger("headrace.alerts")
MAX_WAITING = 1000


class WebhookNotifier:
    """Posts notifications one after the other; `take_finished` returns those that are done."""

    def __init__(
        self,
        url: str,
        allowed_networks: Sequence[Network] = (),
        ca: Path | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._retry_policy = retry_policy or RetryPolicy()
        self._client = WebhookClient(url, allowed_networks, ca, self._retry_policy.attempt_seconds)
        self.host = self._client.host
        self._queue: queue.Queue[Notification] = queue.Queue(MAX_WAITING)
        self._finished: queue.SimpleQueue[Notification] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self.outcomes: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop between two attempts; the next start sends what was not sent."""
        self._stopping.set()
        self._thread.join(2 * self._retry_policy.attempt_seconds)

    def enqueue(self, notification: Notification) -> bool:
        """Queue a notification; False where too many wait already."""
        try:
            self._queue.put_nowait(notification)
        except queue.Full:
            self.outcomes["no_room"] += 1
            return False
        return True

    def take_finished(self) -> list[Notification]:
        """Those that were delivered or given up since the last call."""
        notifications = []
        with suppress(queue.Empty):
            while True:
                notifications.append(self._finished.get_nowait())
        return notifications

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                notification = self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
            if self._deliver(notification):
                self._finished.put(notification)

    def _deliver(self, notification: Notification) -> bool:
        """Whether it was delivered or given up; False while stopping."""
        for attempt in range(self._retry_policy.max_attempts):
            try:
                self._client.post(orjson.dumps(notification.body))
            except (AddressRefused, WebhookRefused) as error:
                return self._give_up("refused", str(error))
            except (OSError, http.client.HTTPException) as failed:
                self.outcomes["retried"] += 1
                reason = self._client.describe_failure(failed)
                LOGGER.warning("Could not post to the webhook at %s: %s (attempt %d)", self.host, reason, attempt + 1)
            else:
                self.outcomes["delivered"] += 1
                return True
            if self._stopping.wait(self._retry_policy.next_pause_seconds(attempt)):
                return False
        return self._give_up("failed", f"{self._retry_policy.max_attempts} attempts failed")

    def _give_up(self, outcome: str, reason: str) -> bool:
        self.outcomes[outcome] += 1
        LOGGER.error("Gave up a notification to the webhook at %s: %s", self.host, reason)
        return True
