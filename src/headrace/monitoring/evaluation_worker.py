"""Threads that evaluate a model for as long as the app runs."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Sequence

from headrace.lake.failure_state import FailureState
from headrace.lake.maintenance import MaintenanceThread

LOGGER = logging.getLogger("headrace.evaluate")
MAX_PAUSE_SECONDS = 300.0


class EvaluationWorker(threading.Thread):
    """Evaluates one model; after a failure it restarts with a back-off, and continues where it stopped."""

    def __init__(self, name: str, pause_seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self._pause_s = pause_seconds
        self._failure = FailureState(pause_seconds, MAX_PAUSE_SECONDS)
        self._stopped = threading.Event()
        self.has_warmed_up = False  # its first run, which costs far more than later ones, is done

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._run()
            except Exception as failure:  # noqa: BLE001  # a broker that restarts, a full disk: waiting loses no data
                if not self._stopped.is_set():
                    self._record_failure(failure)
            self._stopped.wait(self._failure.pause_s or self._pause_s)

    def _record_failure(self, failure: Exception) -> None:
        trace = failure if self._failure.record_failure(failure) else None
        LOGGER.error("%s failed and restarts: %s", self.name, self._failure.error, exc_info=trace)
        try:
            self._report_failure()
        except Exception as problem:  # noqa: BLE001  # a broker that is down: the next failure is reported again
            LOGGER.warning("Could not report the failure of %s: %s", self.name, problem)

    def stop(self) -> None:
        self._stopped.set()

    @abstractmethod
    def _run(self) -> None:
        """Work until stopped; call `_record_success` after each step."""

    def _record_success(self) -> None:
        self.has_warmed_up = True
        self._failure.record_success()

    @abstractmethod
    def _report_failure(self) -> None:
        """Report since when this fails, and why."""


class EvaluationWorkerGroup:
    """Workers that start and stop together, and the maintenance of the tables that they write."""

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
