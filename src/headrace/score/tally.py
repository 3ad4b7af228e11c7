"""What a scorer has done since it began, in plain numbers."""

from collections import Counter

from headrace.declare.catalogue import DECIDE_SECONDS
from headrace.score.prediction import Prediction
from headrace.store.delays import Delays


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
