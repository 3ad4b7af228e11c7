"""The evaluations of an app: each is created and started separately, so that one failure does not affect the others."""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.kafka.status.reports.progress_report import ProgressReport
from headrace.lake.failure_state import FailureState
from headrace.monitoring.evaluation_worker import MAX_PAUSE_SECONDS, EvaluationWorkerGroup

RETRY_SECONDS = 30.0
LOGGER = logging.getLogger("headrace.evaluate")


@dataclass
class EvaluationSetup:
    """Creates the workers of one evaluation, and its progress report while they cannot be created."""

    name: str
    create_workers: Callable[[], EvaluationWorkerGroup]
    create_progress: Callable[[FailureState], ProgressReport]
    failure: FailureState = field(default_factory=lambda: FailureState(RETRY_SECONDS, MAX_PAUSE_SECONDS))


class EvaluationManager:
    """Creates and starts each evaluation; a failure is reported and retried, and the other evaluations continue."""

    def __init__(self, setups: Iterable[EvaluationSetup], report: Callable[[ProgressReport], None]) -> None:
        self._pending_setups, self._started_groups, self._report = list(setups), list[EvaluationWorkerGroup](), report
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._start_all, name="evaluations", daemon=True)

    @property
    def has_warmed_up(self) -> bool:
        """Whether each evaluation has done its first run, which costs far more than later ones."""
        return not self._pending_setups and all(group.has_warmed_up for group in self._started_groups)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            for group in self._started_groups:
                group.stop()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)
        for group in self._started_groups:
            group.join(timeout)

    def _start_all(self) -> None:
        while not self._stopping.is_set() and self._pending_setups:
            self._pending_setups = [
                setup for setup in self._pending_setups if not (setup.failure.is_due and self._try_start(setup))
            ]
            if self._pending_setups:
                self._stopping.wait(min(one.failure.pause_s for one in self._pending_setups))

    def _try_start(self, setup: EvaluationSetup) -> bool:
        try:
            group = setup.create_workers()
            with self._lock:
                if not self._stopping.is_set():
                    group.start()
                    self._started_groups.append(group)
        except Exception as failure:  # noqa: BLE001  # an unreadable model card, a full disk: the others continue
            self._record_failure(setup, failure)
            return False
        return True

    def _record_failure(self, setup: EvaluationSetup, failure: Exception) -> None:
        trace = failure if setup.failure.record_failure(failure) else None
        LOGGER.error("Could not start %s, retrying: %s", setup.name, setup.failure.error, exc_info=trace)
        try:
            self._report(setup.create_progress(setup.failure))
        except Exception as problem:  # noqa: BLE001  # a broker that is down: the next failure is reported again
            LOGGER.warning("Could not report the failure of %s: %s", setup.name, problem)
