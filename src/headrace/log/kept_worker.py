"""One worker among several of a process: one that fails is made anew after a pause that grows; the others go on."""

import logging
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from headrace.errors import HeadraceError

LOGGER = logging.getLogger("headrace.log")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
SETTLED_AFTER_S = 10.0  # up for so long, its failure is over
STEADY_AFTER_S = 60.0  # up for so long, the next failure counts as the first


class Worker(Protocol):
    """A thread that works until it is stopped."""

    @property
    def failure(self) -> BaseException | None:
        """What made it stop by itself, if anything did."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


Kept = TypeVar("Kept", bound=Worker)


class KeptWorker(Generic[Kept]):
    """Keeps one worker up; whoever watches it looks now and then."""

    def __init__(self, name: str, make: Callable[[int], Kept]) -> None:
        """`make` is told how many were made before."""
        self.name, self.error = name, ""
        self._make, self._made, self._failures = make, 1, 0
        self._restart_at: float | None = None
        self._started = 0.0
        self.worker = make(0)

    def start(self) -> None:
        self._started = time.monotonic()
        self.worker.start()

    def stop(self) -> None:
        self.worker.stop()

    def look(self) -> None:
        """Make a worker that has failed anew, once its pause is over."""
        if self.worker.failure is None:
            self._settle()
        elif self._restart_at is None:
            self._fail(self.worker.failure)
        elif time.monotonic() >= self._restart_at:
            self._restart()

    def _settle(self) -> None:
        ran_s = time.monotonic() - self._started
        if self.error and ran_s > SETTLED_AFTER_S:
            self.error = ""
        if self._failures and ran_s > STEADY_AFTER_S:
            self._failures = 0

    def _fail(self, failure: BaseException) -> None:
        self._failures += 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 10))
        self._restart_at = time.monotonic() + pause_s
        self.error = _sentence(failure)
        trace = None if isinstance(failure, HeadraceError) else failure  # what nobody foresaw is worth a traceback
        LOGGER.error("%s failed, and is restarted in %g s: %s", self.name, pause_s, self.error, exc_info=trace)

    def _restart(self) -> None:
        try:
            self.worker.stop()
            self.worker = self._make(self._made)
            self._made += 1
            self._restart_at = None
            self.start()
        except Exception as failure:  # noqa: BLE001  # whatever it is, it is tried again
            self._fail(failure)


def _sentence(failure: BaseException) -> str:
    said = str(failure).partition("\n")[0]
    return said if isinstance(failure, HeadraceError) else f"{type(failure).__name__}: {said}"
