"""One worker among several of a process: a failed one is replaced after a growing back-off; the others continue."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from headrace.errors import HeadraceError
from headrace.kafka.status.reports.connectors import OutboxProgress, SinkProgress, SourceProgress
from headrace.kafka.status.reports.models import ScorerProgress
from headrace.kafka.workers.worker_health import Backoff, RestartPolicy, WorkerHealth, current_time_us

LOGGER = logging.getLogger("headrace.log")
WORKER_RESTART_POLICY = RestartPolicy(
    first_pause_s=0.5, max_pause_s=30.0, steady_after_s=60.0, clear_error_after_s=10.0
)

WorkerProgress = ScorerProgress | SinkProgress | OutboxProgress | SourceProgress


class RestartableWorker(Protocol):
    """A thread that works until it is stopped."""

    @property
    def failure(self) -> BaseException | None:
        """The failure that stopped it, if any."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def progress(self) -> WorkerProgress | None:
        """Its report; None if there is none now."""


WorkerT = TypeVar("WorkerT", bound=RestartableWorker)


class RestartingWorker(Generic[WorkerT]):
    """Keeps one worker running; its owner calls `check` periodically."""

    def __init__(
        self, name: str, create_worker: Callable[[int], WorkerT], policy: RestartPolicy = WORKER_RESTART_POLICY
    ) -> None:
        """`create_worker` is called with the number of workers created before."""
        self.name, self.health = name, WorkerHealth(policy.clear_error_after_s)
        self._create_worker, self._created_count, self._backoff = create_worker, 1, Backoff(policy)
        self._restart_at: float | None = None
        self._started_at = 0.0
        self.worker = create_worker(0)

    @property
    def error(self) -> str:
        """Why it failed last; empty once it has run for a while since."""
        return self.health.error

    def start(self) -> None:
        self._started_at = time.monotonic()
        self.worker.start()

    def stop(self) -> None:
        self.worker.stop()

    def join(self, timeout: float | None = None) -> None:
        """Nothing to wait for: `stop` waits for the worker."""

    def check(self) -> None:
        """Replace a failed worker, once its back-off is over."""
        if self.worker.failure is None:
            self.health.record_working(current_time_us())
        elif self._restart_at is None:
            self._schedule_restart(self.worker.failure, time.monotonic() - self._started_at)
        elif time.monotonic() >= self._restart_at:
            self._restart()

    def progress(self) -> WorkerProgress | None:
        """The worker's report; with the last failure, unless the worker reports a problem of its own."""
        progress = self.worker.progress()
        return None if progress is None else replace(progress, trouble=progress.trouble or self.error)

    def _schedule_restart(self, failure: BaseException, ran_s: float) -> None:
        pause_s = self._backoff.next_pause_s(ran_s)
        self._restart_at = time.monotonic() + pause_s
        self.health.record_failure(describe_failure(failure), current_time_us())
        unexpected_failure = (
            None if isinstance(failure, HeadraceError) else failure
        )  # an unexpected failure is logged with its traceback
        LOGGER.error("%s failed and restarts in %g s: %s", self.name, pause_s, self.error, exc_info=unexpected_failure)

    def _restart(self) -> None:
        try:
            self.worker.stop()
            self.worker = self._create_worker(self._created_count)
            self._created_count += 1
            self._restart_at = None
            self.start()
        except Exception as failure:  # noqa: BLE001  # any failure is retried
            self._schedule_restart(failure, 0.0)
        else:
            self.health.record_restart()
            self.health.record_working(current_time_us())


def describe_failure(failure: BaseException) -> str:
    """Why a worker failed, in one line."""
    message = str(failure).partition("\n")[0]
    return message if isinstance(failure, HeadraceError) else f"{type(failure).__name__}: {message}"
