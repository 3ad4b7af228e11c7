"""Delays, counted by size in plain integers: adding one is cheap, and whoever reads needs no lock."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class DelayHistogram:
    """How many delays were at most each bound; one thread adds, any thread reads."""

    __slots__ = ("bounds", "counts", "total_seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_seconds += seconds

    def merge(self, counts: Sequence[int], seconds: float) -> None:
        """Take the counts of another with the same bounds, and its seconds in all."""
        self.counts = [own + other for own, other in zip(self.counts, counts, strict=True)]
        self.total_seconds += seconds

    def cumulative_counts(self) -> list[tuple[float, int]]:
        """Each bound and how many delays were no longer; infinity last.

        >>> delays = DelayHistogram([0.1, 1])
        >>> delays.add(0.1)
        >>> delays.add(5)
        >>> delays.cumulative_counts()
        [(0.1, 1), (1, 1), (inf, 2)]
        """
        return list(zip((*self.bounds, float("inf")), accumulate(self.counts.copy()), strict=True))
