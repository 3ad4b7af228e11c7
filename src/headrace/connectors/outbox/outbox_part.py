"""The outbox part of an app: each relay in its own thread; it waits for PostgreSQL, the log and the outbox's lock."""

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from functools import partial

from headrace.connectors.outbox.outbox_table import OutboxLockedError, OutboxTable
from headrace.connectors.outbox.relay import Relay
from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.kafka.status.reports.connectors import OutboxProgress
from headrace.kafka.workers.restarting_worker import RestartingWorker
from headrace.kafka.workers.worker_group import WorkerGroup
from headrace.kafka.workers.worker_health import Backoff, RestartPolicy
from headrace.kafka.workers.worker_thread import WorkerThread

LOGGER = logging.getLogger("headrace.outbox")
RETRY_POLICY = RestartPolicy(first_pause_s=0.2, max_pause_s=30.0, shortest_share=0.5)
POLL_INTERVAL_SECONDS = 0.1
STANDBY_SECONDS = 1.0


class RelayRunner:
    """Runs one relay until it is stopped."""

    def __init__(self, relay: Relay, name: str, poll_interval_s: float) -> None:
        self.error = ""
        self.retry_count = 0
        self._relay, self.name, self._poll_interval_s = relay, name, poll_interval_s
        self._backoff = Backoff(RETRY_POLICY)
        self._instance_id = f"{socket.gethostname()}:{os.getpid()}"

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                stop.wait(self._run_step())
        finally:
            self._relay.close()

    def progress(self) -> OutboxProgress:
        """Its progress so far."""
        relay, at_us = self._relay, time.time_ns() // 1000
        counts = dict(relay.fate_counts), dict(relay.reason_counts), self.retry_count
        return OutboxProgress(self.name, self._instance_id, at_us, *counts, relay.oldest_waited_s, self.error)

    def _run_step(self) -> float:
        """Relay one batch; returns the pause before the next."""
        try:
            row_count = self._relay.relay_batch()
        except OutboxLockedError as error:
            self._set_error(str(error))
            return STANDBY_SECONDS
        except HeadraceError as error:
            self._set_error(str(error))
            return self._back_off()
        except Exception as error:  # noqa: BLE001  # any failure: the other outboxes continue
            self._set_error(f"{self.name} failed, and is tried again: {type(error).__name__}: {error}", exception=error)
            self._relay.close()  # the next step opens a new connection
            return self._back_off()
        self._backoff.reset()
        missing_topics = self._relay.missing_topics
        self._set_error(
            f"{self.name}: rows wait for {', '.join(missing_topics)}: no such topic." if missing_topics else ""
        )
        return 0.0 if row_count else self._poll_interval_s

    def _back_off(self) -> float:
        self.retry_count += 1
        return self._backoff.next_pause_s(ran_s=0.0)

    def _set_error(self, message: str, exception: Exception | None = None) -> None:
        if message and message != self.error:
            LOGGER.warning("%s", message, exc_info=exception)
        self.error = message


class RelayWorker(WorkerThread):
    """Runs a relay in its own thread."""

    def __init__(self, runner: RelayRunner) -> None:
        super().__init__(f"outbox {runner.name}")
        self._runner = runner

    def _work(self) -> None:
        self._runner.run(self.stop_event)

    def progress(self) -> OutboxProgress:
        """Its progress so far."""
        return self._runner.progress()


def run_relays(app: App, broker: str, stop: threading.Event, poll_interval_s: float = POLL_INTERVAL_SECONDS) -> None:
    """Relay every outbox of an app, each in its own thread, until `stop` is set."""
    streams = {stream.name: stream for stream in app.streams}
    runners = [
        RelayRunner(Relay(OutboxTable(outbox.url, outbox.table), broker, streams), outbox.name, poll_interval_s)
        for outbox in app.outboxes
    ]
    run_relay_group(runners, broker, stop)


def run_relay_group(runners: Sequence[RelayRunner], broker: str, stop: threading.Event) -> None:
    """Relay, and report each relay every second, until `stop` is set."""
    workers = [RestartingWorker(f"The relay of {runner.name}", partial(_create_worker, runner)) for runner in runners]
    WorkerGroup("Reporting outboxes", workers, broker).run(stop)


def _create_worker(runner: RelayRunner, _restart_count: int) -> RelayWorker:
    """A worker for the same runner: the relay keeps its counts, and opens new connections."""
    return RelayWorker(runner)
