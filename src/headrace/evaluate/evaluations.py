"""What is evaluated beside the lake: made and started by a thread of its own, so that landing never waits for it."""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.evaluate.lasting import LONGEST_PAUSE_SECONDS, Together
from headrace.lake.failure_state import FailureState
from headrace.log.progress import Progress

RETRY_SECONDS = 30.0
LOGGER = logging.getLogger("headrace.evaluate")


@dataclass
class Setup:
    """How the evaluation of one model is made, and what is told while it cannot be made."""

    name: str
    make: Callable[[], Together]
    progress_of: Callable[[FailureState], Progress]
    failure: FailureState = field(default_factory=lambda: FailureState(RETRY_SECONDS, LONGEST_PAUSE_SECONDS))


class Evaluations:
    """Makes and starts each evaluation; one that cannot be made is told of and tried again, and the others go on."""

    def __init__(self, setups: Iterable[Setup], tell: Callable[[Progress], None]) -> None:
        self._waiting, self._begun, self._tell = list(setups), list[Together](), tell
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._begin_all, name="evaluations", daemon=True)

    @property
    def have_begun(self) -> bool:
        """Whether the first look of each, which costs far more than another, is behind it."""
        return not self._waiting and all(one.have_begun for one in self._begun)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            for one in self._begun:
                one.stop()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)
        for one in self._begun:
            one.join(timeout)

    def _begin_all(self) -> None:
        while not self._stopping.is_set() and self._waiting:
            self._waiting = [one for one in self._waiting if not (one.failure.is_due and self._has_begun(one))]
            if self._waiting:
                self._stopping.wait(min(one.failure.pause_s for one in self._waiting))

    def _has_begun(self, setup: Setup) -> bool:
        try:
            made = setup.make()
            with self._lock:
                if not self._stopping.is_set():
                    made.start()
                    self._begun.append(made)
        except Exception as failure:  # noqa: BLE001  # a card that cannot be read, a full disk: the lake goes on
            self._record_failure(setup, failure)
            return False
        return True

    def _record_failure(self, setup: Setup, failure: Exception) -> None:
        trace = failure if setup.failure.record_failure(failure) else None
        LOGGER.error("%s could not start, and is tried again: %s", setup.name, setup.failure.error, exc_info=trace)
        try:
            self._tell(setup.progress_of(setup.failure))
        except Exception as problem:  # noqa: BLE001  # a broker that is away: it is told at the next failure
            LOGGER.warning("Could not report the failure of %s: %s", setup.name, problem)
