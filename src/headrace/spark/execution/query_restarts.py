"""Restarts a query within its driver: alone, with exponential back-off up to a minute, without a limit on attempts."""

import logging
import threading
import time
from abc import abstractmethod

from headrace.kafka.workers.worker_health import Backoff, RestartPolicy, WorkerHealth, current_time_us
from headrace.spark.session.error_summary import summarize_spark_error

LOGGER = logging.getLogger("headrace.stream")
DEFAULT_POLICY = RestartPolicy()


class RestartingThread(threading.Thread):
    """Runs a query until it is stopped, and restarts it after failures.

    `failure` is set, and the thread ends, only where no restart can help.
    """

    def __init__(self, name: str, policy: RestartPolicy = DEFAULT_POLICY) -> None:
        super().__init__(name=name, daemon=True)
        self.health = WorkerHealth(policy.clear_error_after_s)
        self.failure: Exception | None = None
        self._backoff, self._stopped = Backoff(policy), threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set() and self.failure is None:
            started_s = time.monotonic()
            try:
                self._attempt()
            except Exception as failure:  # noqa: BLE001  # any failure concerns only this query
                self._handle_failure(failure, time.monotonic() - started_s)

    def stop(self) -> None:
        """Stop the thread, also while it waits to restart."""
        self._stopped.set()

    @abstractmethod
    def _attempt(self) -> None:
        """Run the query until it is stopped; a return starts another attempt at once."""

    @abstractmethod
    def _is_working(self) -> bool:
        """Whether the query is processing data, not merely started."""

    def _recover(self, failure: Exception) -> Exception | None:
        """Remove the cause of a failure: None where that was possible, else why the query cannot continue yet."""
        return failure

    def _can_restart(self) -> bool:
        """Whether the requirements of every attempt still hold."""
        return True

    def check_health(self) -> WorkerHealth:
        """The query's failures, after checking it now."""
        if self._is_working():
            self.health.record_working(current_time_us())
        return self.health

    def _handle_failure(self, failure: Exception, ran_s: float) -> None:
        cause = None if self._stopped.is_set() else self._recover(failure)
        if cause is None or self._stopped.is_set():
            return
        if not self._can_restart():
            self.failure = cause
            return
        message, pause_s = summarize_spark_error(cause), self._backoff.next_pause_s(ran_s)
        trace = None if message == self.health.error else cause  # a repeated one would fill the log
        LOGGER.error("%s failed and restarts in %.0f s: %s", self.name, pause_s, message, exc_info=trace)
        self.health.record_failure(message, current_time_us())
        if not self._stopped.wait(pause_s):
            self.health.record_restart()
