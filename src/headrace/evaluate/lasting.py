"""Work beside the lake that lasts as long as the app does."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Sequence

from headrace.lake.care import Caretaker
from headrace.lake.failure_state import FailureState

LOGGER = logging.getLogger("headrace.evaluate")
LONGEST_PAUSE_SECONDS = 300.0


class Lasting(threading.Thread):
    """The work of one model; what fails is begun again after a pause, and goes on where it was."""

    def __init__(self, name: str, pause_seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self._pause_s = pause_seconds
        self._failure = FailureState(pause_seconds, LONGEST_PAUSE_SECONDS)
        self._stopped = threading.Event()
        self.has_begun = False  # its first look, which costs far more than another, is behind it

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._run()
            except Exception as failure:  # noqa: BLE001  # a broker that restarts, a full disk: nothing is lost by waiting
                if not self._stopped.is_set():
                    self._record_failure(failure)
            self._stopped.wait(self._failure.pause_s or self._pause_s)

    def _record_failure(self, failure: Exception) -> None:
        trace = failure if self._failure.record_failure(failure) else None
        LOGGER.error("%s has failed, and is started again: %s", self.name, self._failure.error, exc_info=trace)
        try:
            self._report_failure()
        except Exception as problem:  # noqa: BLE001  # a broker that is away: it is told at the next failure
            LOGGER.warning("Could not report the failure of %s: %s", self.name, problem)

    def stop(self) -> None:
        self._stopped.set()

    @abstractmethod
    def _run(self) -> None:
        """Work until stopped; whoever has done a piece of it says so with `_went_on`."""

    def _went_on(self) -> None:
        self.has_begun = True
        self._failure.record_success()

    @abstractmethod
    def _report_failure(self) -> None:
        """Tell since when this fails, and why."""


class Together:
    """Work that is started and stopped at once, and whoever cares for the tables it writes."""

    def __init__(self, each: Sequence[Lasting], caretaker: Caretaker) -> None:
        self._each, self._caretaker = each, caretaker

    @property
    def have_begun(self) -> bool:
        return all(one.has_begun for one in self._each)

    def start(self) -> None:
        for one in self._each:
            one.start()
        self._caretaker.start()

    def stop(self) -> None:
        self._caretaker.stop()
        for one in self._each:
            one.stop()

    def join(self, timeout: float | None = None) -> None:
        for one in self._each:
            one.join(timeout)
