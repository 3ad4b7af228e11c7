"""What a scorer has done since it began, in plain numbers."""

from collections import Counter

from headrace.score.prediction import Prediction
from headrace.store.delays import Delays

DECIDE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)


class ScoreTally:
    """How many predictions of which version and role, how many were less than they should be, and how long they took.

    One thread counts, any thread reads.
    """

    def __init__(self) -> None:
        self.predictions: Counter[tuple[str, str]] = Counter()
        self.degraded: Counter[str] = Counter()
        self.delays = Delays(DECIDE_SECONDS)

    def count(self, prediction: Prediction) -> None:
        """Count one; how long it took is the champion's matter."""
        self.predictions[prediction.version, prediction.role] += 1
        if prediction.role == "champion":
            self.degraded.update(prediction.degraded)
            self.delays.add((prediction.latency_ms or 0.0) / 1000)
