"""A relay that goes on: it waits for PostgreSQL, the log and its turn, longer each time, and says what it waits for."""

import logging
import os
import socket
import threading
import time

from headrace.connectors.outbox.outbox_table import OutboxLockedError, OutboxTable
from headrace.connectors.outbox.relay import Relay
from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.connectors import OutboxProgress
from headrace.telemetry.webhooks.webhook_client import RetryPolicy

LOGGER = logging.getLogger("headrace.outbox")
RETRY_POLICY = RetryPolicy(first_pause_seconds=0.2, max_pause_seconds=30.0)
MAX_BACKOFF_DOUBLINGS = 20
POLL_INTERVAL_SECONDS = 0.1
STANDBY_SECONDS = 1.0
REPORT_INTERVAL_SECONDS = 1.0


class RelayRunner:
    """Runs one relay until told to stop."""

    def __init__(self, relay: Relay, name: str, poll_interval_s: float) -> None:
        self.error = ""
        self.retry_count = 0
        self._relay, self._name, self._poll_interval_s = relay, name, poll_interval_s
        self._attempt_count = 0
        self._instance_id = f"{socket.gethostname()}:{os.getpid()}"

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                stop.wait(self._run_step())
        finally:
            self._relay.close()

    def progress(self) -> OutboxProgress:
        """What it has done so far."""
        relay, at_us = self._relay, time.time_ns() // 1000
        counts = dict(relay.fate_counts), dict(relay.reason_counts), self.retry_count
        return OutboxProgress(self._name, self._instance_id, at_us, *counts, relay.oldest_waited_s, self.error)

    def _run_step(self) -> float:
        """Do a step; how long to wait for the next."""
        try:
            row_count = self._relay.relay_batch()
        except OutboxLockedError as error:
            self._set_error(str(error))
            return STANDBY_SECONDS
        except HeadraceError as error:
            self._set_error(str(error))
            return self._back_off()
        except Exception as error:  # noqa: BLE001  # whatever it is, the other outboxes go on
            self._set_error(
                f"{self._name} failed, and is tried again: {type(error).__name__}: {error}", exception=error
            )
            self._relay.close()  # begins the next step with a new connection
            return self._back_off()
        self._attempt_count = 0
        missing_topics = self._relay.missing_topics
        self._set_error(
            f"{self._name}: rows wait for {', '.join(missing_topics)}: no such topic." if missing_topics else ""
        )
        return 0.0 if row_count else self._poll_interval_s

    def _back_off(self) -> float:
        self._attempt_count += 1
        self.retry_count += 1
        return RETRY_POLICY.next_pause_seconds(min(self._attempt_count - 1, MAX_BACKOFF_DOUBLINGS))

    def _set_error(self, message: str, exception: Exception | None = None) -> None:
        if message and message != self.error:
            LOGGER.warning("%s", message, exc_info=exception)
        self.error = message


def run_relays(app: App, broker: str, stop: threading.Event, poll_interval_s: float = POLL_INTERVAL_SECONDS) -> None:
    """Relay every outbox of an app, each in a thread of its own, until `stop` is set."""
    streams = {stream.name: stream for stream in app.streams}
    runners = [
        RelayRunner(Relay(OutboxTable(outbox.url, outbox.table), broker, streams), outbox.name, poll_interval_s)
        for outbox in app.outboxes
    ]
    threads = [threading.Thread(target=run_relay, args=(runner, broker, stop), daemon=True) for runner in runners]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join()


def run_relay(runner: RelayRunner, broker: str, stop: threading.Event) -> None:
    """Relay, and tell the log of it each second, until `stop` is set."""
    reporter_thread = threading.Thread(
        target=_report_progress, args=(runner, broker, stop), name="outbox progress", daemon=True
    )
    reporter_thread.start()
    runner.run(stop)
    reporter_thread.join()


def _report_progress(runner: RelayRunner, broker: str, stop: threading.Event) -> None:
    producer: Producer | None = None
    while not stop.wait(REPORT_INTERVAL_SECONDS):
        try:
            if producer is None:
                ensure_progress_topic(broker)
                producer = Producer(broker)
            publish_progress(producer, runner.progress())
        except HeadraceError as error:
            LOGGER.debug("progress is not told: %s", error)
