"""Percentiles of a sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Self

from bench.errors import BenchFailed


def percentile(sample: Sequence[float], share: float) -> float:
    """The smallest value that this share of the sample does not exceed.

    >>> percentile([4, 1, 3, 2], 50)
    2
    >>> percentile([4, 1, 3, 2], 99)
    4
    """
    if not sample:
        raise BenchFailed("There is no percentile of nothing: nothing was measured.")
    ordered = sorted(sample)
    return ordered[max(0, ceil(share / 100 * len(ordered)) - 1)]


@dataclass(frozen=True)
class Spread:
    """A sample in four numbers."""

    count: int
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, sample: Sequence[float]) -> Self:
        return cls(len(sample), *(percentile(sample, share) for share in (50, 90, 99)))
