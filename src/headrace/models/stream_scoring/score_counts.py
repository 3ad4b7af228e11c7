"""The counts of a scorer since its start."""

from collections import Counter

from headrace.declare.metric_catalog import DECIDE_SECONDS_BUCKETS
from headrace.models.inference.prediction import Prediction
from headrace.online_store.delay_histogram import DelayHistogram


class ScoreCounts:
    """Predictions by version and role, degraded ones by reason, and the latency of all.

    One thread counts, any thread reads.
    """

    def __init__(self) -> None:
        self.predictions: Counter[tuple[str, str]] = Counter()
        self.degraded: Counter[str] = Counter()
        self.delays = DelayHistogram(DECIDE_SECONDS_BUCKETS)

    def count(self, prediction: Prediction) -> None:
        """Count one prediction; only the champion's latency counts."""
        self.predictions[prediction.version, prediction.role] += 1
        if prediction.role == "champion":
            self.degraded.update(prediction.degraded)
            self.delays.add((prediction.latency_ms or 0.0) / 1000)
