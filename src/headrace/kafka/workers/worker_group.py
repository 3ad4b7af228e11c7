"""The loop of a part with several worker threads.

start all ──▶ each second: check each (a failed one is restarted, alone) ──▶ report all ──▶ … ──▶ stop all
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from headrace.errors import HeadraceError
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.progress_report import ProgressReport

LOGGER = logging.getLogger("headrace.log")
REPORT_SECONDS = 1.0

MergeReports = Callable[[list[Any]], Iterable[ProgressReport]]


class SupervisedWorker(Protocol):
    """What a group starts, checks each second and stops."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def check(self) -> None:
        """Restart it if it has failed, or raise a failure that restarting it cannot repair."""

    def progress(self) -> ProgressReport | None:
        """Its report; None if there is none now."""


class WorkerGroup:
    """Runs the workers of a part until it is stopped; a failed report is retried the next second."""

    def __init__(
        self,
        label: str,
        workers: Sequence[SupervisedWorker],
        broker: str,
        *,
        merge_reports: MergeReports = list,
        before_check: Callable[[], None] = lambda: None,
        stop_seconds: float | None = None,
    ) -> None:
        """`stop_seconds` limits how long all workers together may take to stop."""
        self._label, self._workers, self._broker = label, workers, broker
        self._merge_reports, self._before_check, self._stop_s = merge_reports, before_check, stop_seconds
        self._producer: Producer | None = None
        self._report_error = ""

    def run(self, stop: threading.Event) -> None:
        """Start all workers, check and report them each second until `stop` is set, then stop all."""
        try:
            for worker in self._workers:
                worker.start()
            while not stop.wait(REPORT_SECONDS):
                self._before_check()
                for worker in self._workers:
                    worker.check()
                self._report()
        finally:
            self._stop()

    def _report(self) -> None:
        try:
            producer = self._open_producer()
            reports = [report for worker in self._workers if (report := worker.progress()) is not None]
            for report in self._merge_reports(reports):
                publish_progress(producer, report)
            self._report_error = ""
        except HeadraceError as error:
            if str(error) != self._report_error:
                LOGGER.warning("%s: waiting: %s", self._label, error)
            self._report_error = str(error)

    def _open_producer(self) -> Producer:
        """The producer of reports, once their topic exists."""
        if self._producer is None:
            ensure_progress_topic(self._broker)
            self._producer = Producer(self._broker)
        return self._producer

    def _stop(self) -> None:
        until_s = None if self._stop_s is None else time.monotonic() + self._stop_s
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join(None if until_s is None else max(0.0, until_s - time.monotonic()))
