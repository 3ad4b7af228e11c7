"""One worker among several of a process: a failed one is replaced after a growing back-off; the others continue."""

import logging
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from headrace.errors import HeadraceError

LOGGER = logging.getLogger("headrace.log")
INITIAL_BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
CLEAR_ERROR_AFTER_S = 10.0  # after running this long, its error is cleared
RESET_BACKOFF_AFTER_S = 60.0  # after running this long, the back-off starts from the beginning


class RestartableWorker(Protocol):
    """A thread that works until it is stopped."""

    @property
    def failure(self) -> BaseException | None:
        """The failure that stopped it, if any."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


WorkerT = TypeVar("WorkerT", bound=RestartableWorker)


class RestartingWorker(Generic[WorkerT]):
    """Keeps one worker running; its owner calls `restart_if_failed` periodically."""

    def __init__(self, name: str, create_worker: Callable[[int], WorkerT]) -> None:
        """`create_worker` is called with the number of workers created before."""
        self.name, self.error = name, ""
        self._create_worker, self._created_count, self._failure_count = create_worker, 1, 0
        self._restart_at: float | None = None
        self._started_at = 0.0
        self.worker = create_worker(0)

    def start(self) -> None:
        self._started_at = time.monotonic()
        self.worker.start()

    def stop(self) -> None:
        self.worker.stop()

    def restart_if_failed(self) -> None:
        """Replace a failed worker, once its back-off is over."""
        if self.worker.failure is None:
            self._reset_if_stable()
        elif self._restart_at is None:
            self._schedule_restart(self.worker.failure)
        elif time.monotonic() >= self._restart_at:
            self._restart()

    def _reset_if_stable(self) -> None:
        ran_s = time.monotonic() - self._started_at
        if self.error and ran_s > CLEAR_ERROR_AFTER_S:
            self.error = ""
        if self._failure_count and ran_s > RESET_BACKOFF_AFTER_S:
            self._failure_count = 0

    def _schedule_restart(self, failure: BaseException) -> None:
        self._failure_count += 1
        backoff_s = min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2.0 ** min(self._failure_count - 1, 10))
        self._restart_at = time.monotonic() + backoff_s
        self.error = _describe_failure(failure)
        unexpected_failure = (
            None if isinstance(failure, HeadraceError) else failure
        )  # an unexpected failure is logged with its traceback
        LOGGER.error(
            "%s failed and restarts in %g s: %s", self.name, backoff_s, self.error, exc_info=unexpected_failure
        )

    def _restart(self) -> None:
        try:
            self.worker.stop()
            self.worker = self._create_worker(self._created_count)
            self._created_count += 1
            self._restart_at = None
            self.start()
        except Exception as failure:  # noqa: BLE001  # any failure is retried
            self._schedule_restart(failure)


def _describe_failure(failure: BaseException) -> str:
    message = str(failure).partition("\n")[0]
    return message if isinstance(failure, HeadraceError) else f"{type(failure).__name__}: {message}"
