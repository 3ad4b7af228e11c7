"""Restarts a query within its driver: alone, with exponential back-off up to a minute, without a limit on attempts.

runs ──fails──▶ 1 s ──fails──▶ 2 s ──fails──▶ 4 s … 60 s, 60 s ──▶ runs steadily for 2 min: the back-off is reset
     └── down, with the error ──────────────────────────────┘ └── up; the error is shown until it runs steadily ──▶
"""

import logging
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass

from headrace.spark.session.error_summary import summarize_spark_error

LOGGER = logging.getLogger("headrace.stream")


@dataclass(frozen=True)
class RestartPolicy:
    """The pauses between restarts, and after how long a query counts as steady again."""

    first_pause_s: float = 1.0
    max_pause_s: float = 60.0
    steady_after_s: float = 120.0


DEFAULT_POLICY = RestartPolicy()


class Backoff:
    """The pause before each restart: doubles, unless the query ran steadily in between."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy, self._next_pause_s = policy, policy.first_pause_s

    def next_pause_s(self, ran_s: float) -> float:
        """The pause after an attempt that ran for this long."""
        pause_s = self._policy.first_pause_s if ran_s >= self._policy.steady_after_s else self._next_pause_s
        self._next_pause_s = min(2 * pause_s, self._policy.max_pause_s)
        return pause_s


class QueryHealth:
    """The failures of a query: the number of restarts, since when it is down, and why."""

    def __init__(self, steady_after_s: float = DEFAULT_POLICY.steady_after_s) -> None:
        self.restarts, self.error = 0, ""
        self.down_since_us: int | None = None
        self._steady_after_us, self._up_since_us, self._is_backing_off = int(steady_after_s * 1_000_000), 0, False

    def record_failure(self, error: str, now_us: int) -> None:
        self.error, self._is_backing_off = error, True
        self.down_since_us = self.down_since_us or now_us

    def record_restart(self) -> None:
        """Count another attempt; the query stays down until it is seen working."""
        self.restarts += 1
        self._is_backing_off = False

    def record_working(self, now_us: int) -> None:
        """Record that the query is working."""
        if self._is_backing_off:
            return
        if self.down_since_us is not None:
            self.down_since_us, self._up_since_us = None, now_us
        elif now_us - self._up_since_us >= self._steady_after_us:
            self.error = ""

    @property
    def is_down(self) -> bool:
        return self.down_since_us is not None


class RestartingThread(threading.Thread):
    """Runs a query until it is stopped, and restarts it after failures.

    `failure` is set, and the thread ends, only where no restart can help.
    """

    def __init__(self, name: str, policy: RestartPolicy = DEFAULT_POLICY) -> None:
        super().__init__(name=name, daemon=True)
        self.health = QueryHealth(policy.steady_after_s)
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

    def check_health(self) -> QueryHealth:
        """The query's failures, after checking it now."""
        if self._is_working():
            self.health.record_working(_now_us())
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
        self.health.record_failure(message, _now_us())
        if not self._stopped.wait(pause_s):
            self.health.record_restart()


def _now_us() -> int:
    return time.time_ns() // 1000
