"""Sequential detection on realised errors: River's ADWIN suspects an increase, its DDM confirms it.

errors  0 0 1 0 0 0 0 1 0 │ 1 0 1 1 0 1 0 1 1 …
                          │         ▲ ADWIN: the error rate has increased   suspected
                          │                  ▲ DDM: above its minimum by three deviations  confirmed

ADWIN rarely raises a false alarm and locates the change; DDM alone raises false alarms early, and reacts more slowly
after a long stable period.
"""

from dataclasses import dataclass

from river.drift import ADWIN
from river.drift.binary import DDM

from headrace.errors import HeadraceError

ADWIN_DELTA = 0.002
CONFIRM_WITHIN_OUTCOMES = 10_000


class InvalidOutcomeError(HeadraceError):
    """The value given to an error detector is neither right nor wrong."""


@dataclass(frozen=True)
class ErrorRateChange:
    """An increase of errors: when it was detected, the error rate before and since, and by which detectors."""

    outcome_number: int
    rate_before: float
    rate_since: float
    is_confirmed: bool


class ErrorDriftDetector:
    """Follows the errors of a model, outcome by outcome, in the order of predictions."""

    def __init__(self, delta: float = ADWIN_DELTA, confirm_within: int = CONFIRM_WITHIN_OUTCOMES) -> None:
        self.outcome_count = 0
        self._confirm_within = confirm_within
        self._adwin, self._ddm = ADWIN(delta=delta), DDM()
        self._suspected_change: ErrorRateChange | None = None
        self._ddm_detected_at = -confirm_within - 1

    @property
    def error_share(self) -> float:
        """The error rate of the outcomes in ADWIN's current window."""
        return float(self._adwin.estimation)

    def update(self, error: float) -> ErrorRateChange | None:
        """Add an outcome, 1 if wrong and 0 if not; returns a change once it is suspected, and again once confirmed."""
        if error not in {0, 1}:
            raise InvalidOutcomeError(
                f"An outcome is 1 (wrong) or 0 (right), not {error!r:.80}. Compare errors with a bound."
            )
        self.outcome_count += 1
        suspected = self._detect_with_adwin(error)
        self._ddm.update(bool(error))
        if self._ddm.drift_detected:
            self._ddm_detected_at = self.outcome_count
        if suspected:
            self._suspected_change = suspected
        return self._confirm_with_ddm() or suspected

    def _detect_with_adwin(self, error: float) -> ErrorRateChange | None:
        """The result of ADWIN; a decrease of errors is no alarm, and ends a suspicion."""
        rate_before = self._adwin.estimation
        self._adwin.update(error)
        if not self._adwin.drift_detected:
            return None
        self._suspected_change = None
        rate_since = self._adwin.estimation
        return ErrorRateChange(self.outcome_count, rate_before, rate_since, False) if rate_since > rate_before else None

    def _confirm_with_ddm(self) -> ErrorRateChange | None:
        """A suspicion that DDM shares, shortly before or after."""
        suspected = self._suspected_change
        if suspected is None or abs(self._ddm_detected_at - suspected.outcome_number) > self._confirm_within:
            return None
        self._suspected_change = None
        return ErrorRateChange(self.outcome_count, suspected.rate_before, suspected.rate_since, True)
