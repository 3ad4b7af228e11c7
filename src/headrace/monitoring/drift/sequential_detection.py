"""The realised errors one by one: River's ADWIN suspects that they became more, its DDM confirms it.

errors  0 0 1 0 0 0 0 1 0 │ 1 0 1 1 0 1 0 1 1 …
                          │         ▲ ADWIN: the last ones are more than those before   suspected
                          │                  ▲ DDM: above its least by three deviations  confirmed

ADWIN alone rarely errs and says when; DDM alone starts with false alarms, and needs longer the longer it was quiet.
"""

from dataclasses import dataclass

from river.drift import ADWIN
from river.drift.binary import DDM

from headrace.errors import HeadraceError

ADWIN_DELTA = 0.002
CONFIRM_WITHIN_OUTCOMES = 10_000


class InvalidOutcomeError(HeadraceError):
    """What was given to a watch of errors is neither right nor wrong."""


@dataclass(frozen=True)
class ErrorRateChange:
    """That errors became more: seen at which of them, the share of wrong ones before and since, by both detectors."""

    outcome_number: int
    rate_before: float
    rate_since: float
    is_confirmed: bool


class ErrorDriftDetector:
    """Follows whether a model was right, outcome by outcome, in the order of predictions."""

    def __init__(self, delta: float = ADWIN_DELTA, confirm_within: int = CONFIRM_WITHIN_OUTCOMES) -> None:
        self.outcome_count = 0
        self._confirm_within = confirm_within
        self._adwin, self._ddm = ADWIN(delta=delta), DDM()
        self._suspected_change: ErrorRateChange | None = None
        self._ddm_detected_at = -confirm_within - 1

    @property
    def error_share(self) -> float:
        """The share of wrong ones among those that ADWIN takes for alike."""
        return float(self._adwin.estimation)

    def update(self, error: float) -> ErrorRateChange | None:
        """One more outcome, 1 if it was wrong and 0 if not; a change once it is suspected, and again once confirmed."""
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
        """What ADWIN says; that errors became fewer is no alarm, and ends a suspicion."""
        rate_before = self._adwin.estimation
        self._adwin.update(error)
        if not self._adwin.drift_detected:
            return None
        self._suspected_change = None
        rate_since = self._adwin.estimation
        return ErrorRateChange(self.outcome_count, rate_before, rate_since, False) if rate_since > rate_before else None

    def _confirm_with_ddm(self) -> ErrorRateChange | None:
        """A suspicion the other detector shares, a little before or after."""
        suspected = self._suspected_change
        if suspected is None or abs(self._ddm_detected_at - suspected.outcome_number) > self._confirm_within:
            return None
        self._suspected_change = None
        return ErrorRateChange(self.outcome_count, suspected.rate_before, suspected.rate_since, True)
