"""A histogram of delays in plain integers: adding is cheap, and readers need no lock."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class DelayHistogram:
    """The number of delays up to each bound; one thread adds, any thread reads."""

    __slots__ = ("bounds", "counts", "total_seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_seconds += seconds

    def merge(self, counts: Sequence[int], seconds: float) -> None:
        """Add the counts and the total seconds of another histogram with the same bounds."""
        self.counts = [own + other for own, other in zip(self.counts, counts, strict=True)]
        self.total_seconds += seconds

    def cumulative_counts(self) -> list[tuple[float, int]]:
        """Each bound with the number of delays up to it; infinity last.

        >>> delays = DelayHistogram([0.1, 1])
        >>> delays.add(0.1)
        >>> delays.add(5)
        >>> delays.cumulative_counts()
        [(0.1, 1), (1, 1), (inf, 2)]
        """
        return list(zip((*self.bounds, float("inf")), accumulate(self.counts.copy()), strict=True))
