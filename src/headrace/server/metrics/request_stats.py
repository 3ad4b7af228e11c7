"""The number of requests of each path, their status and duration; the number of scored events."""

from collections import Counter
from collections.abc import Sequence

from headrace.declare.metric_catalog import REQUEST_SECONDS_BUCKETS
from headrace.online_store.delay_histogram import DelayHistogram


class PredictionStats:
    """How many events of a model were scored over HTTP, and how many were degraded."""

    __slots__ = ("degraded", "scored")

    def __init__(self) -> None:
        self.scored = 0
        self.degraded: Counter[str] = Counter()

    def add(self, degraded: Sequence[tuple[str, ...]]) -> None:
        """Count events by the reasons of each."""
        self.scored += len(degraded)
        for reasons in degraded:
            if reasons:
                self.degraded.update(reasons)

    def merge(self, other: "PredictionStats") -> None:
        """Add the counts of another process."""
        self.scored += other.scored
        self.degraded.update(other.degraded.copy())


class RequestStats:
    """The requests of one path."""

    __slots__ = ("delays", "statuses")

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.delays = DelayHistogram(REQUEST_SECONDS_BUCKETS)

    def add(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.delays.add(seconds)

    def merge(self, other: "RequestStats") -> None:
        """Add the counts of another process."""
        self.statuses.update(other.statuses.copy())
        self.delays.merge(other.delays.counts.copy(), other.delays.total_seconds)
