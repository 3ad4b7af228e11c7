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

DELTA = 0.002
CONFIRM_WITHIN = 10_000


class NotAnError(HeadraceError):
    """What was given to a watch of errors is neither right nor wrong."""


@dataclass(frozen=True)
class Change:
    """That errors became more: seen at which of them, the share of wrong ones before and since, by both detectors."""

    at: int
    before: float
    since: float
    confirmed: bool


class ErrorWatch:
    """Follows whether a model was right, outcome by outcome, in the order of predictions."""

    def __init__(self, delta: float = DELTA, confirm_within: int = CONFIRM_WITHIN) -> None:
        self.seen = 0
        self._within = confirm_within
        self._adwin, self._ddm = ADWIN(delta=delta), DDM()
        self._suspected: Change | None = None
        self._shared_at = -confirm_within - 1

    @property
    def share(self) -> float:
        """The share of wrong ones among those that ADWIN takes for alike."""
        return float(self._adwin.estimation)

    def update(self, wrong: float) -> Change | None:
        """One more outcome, 1 if it was wrong and 0 if not; a change once it is suspected, and again once confirmed."""
        if wrong not in {0, 1}:
            raise NotAnError(f"An outcome is 1 (wrong) or 0 (right), not {wrong!r:.80}. Compare errors with a bound.")
        self.seen += 1
        suspected = self._suspects(wrong)
        self._ddm.update(bool(wrong))
        if self._ddm.drift_detected:
            self._shared_at = self.seen
        if suspected:
            self._suspected = suspected
        return self._confirmed() or suspected

    def _suspects(self, wrong: float) -> Change | None:
        """What ADWIN says; that errors became fewer is no alarm, and ends a suspicion."""
        before = self._adwin.estimation
        self._adwin.update(wrong)
        if not self._adwin.drift_detected:
            return None
        self._suspected = None
        since = self._adwin.estimation
        return Change(self.seen, before, since, False) if since > before else None

    def _confirmed(self) -> Change | None:
        """A suspicion the other detector shares, a little before or after."""
        suspected = self._suspected
        if suspected is None or abs(self._shared_at - suspected.at) > self._within:
            return None
        self._suspected = None
        return Change(self.seen, suspected.before, suspected.since, True)
