"""The evaluation of a model: work that lasts as long as the app does."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Sequence

from headrace.lake.failure_state import FailureState
from headrace.lake.maintenance import MaintenanceThread

LOGGER = logging.getLogger("headrace.evaluate")
MAX_PAUSE_SECONDS = 300.0


class EvaluationWorker(threading.Thread):
    """The work of one model; what fails is begun again after a pause, and goes on where it was."""

    def __init__(self, name: str, pause_seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self._pause_s = pause_seconds
        self._failure = FailureState(pause_seconds, MAX_PAUSE_SECONDS)
        self._stopped = threading.Event()
        self.has_warmed_up = False  # its first look, which costs far more than another, is behind it

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

    def _record_success(self) -> None:
        self.has_warmed_up = True
        self._failure.record_success()

    @abstractmethod
    def _report_failure(self) -> None:
        """Tell since when this fails, and why."""


class EvaluationWorkerGroup:
    """Work that is started and stopped at once, and whoever cares for the tables it writes."""

    def __init__(self, workers: Sequence[EvaluationWorker], maintenance: MaintenanceThread) -> None:
        self._workers, self._maintenance = workers, maintenance

    @property
    def has_warmed_up(self) -> bool:
        return all(worker.has_warmed_up for worker in self._workers)

    def start(self) -> None:
        for worker in self._workers:
            worker.start()
        self._maintenance.start()

    def stop(self) -> None:
        self._maintenance.stop()
        for worker in self._workers:
            worker.stop()

    def join(self, timeout: float | None = None) -> None:
        for worker in self._workers:
            worker.join(timeout)
