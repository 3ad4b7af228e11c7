"""Many sorted lists of times in one array, searched together."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
LARGEST_KEY = 1 << 62


def order_by_group_and_time(group_ids: Ints, times_us: Ints) -> Ints:
    """The order by group, then time; with both in one integer where they fit, which sorts ten times as fast."""
    width = int(times_us.max()) - int(times_us.min()) + 1 if len(times_us) else 1
    if (int(group_ids.max(initial=0)) + 1) * width > LARGEST_KEY:
        return np.lexsort((times_us, group_ids))
    return np.argsort(group_ids * width + (times_us - times_us.min(initial=0)))


class SortedTimes:
    """Times by group, sorted by both.

    group   0          1             2
    times   3 5 9      2 2 8 8       1 7
    upto(1, 2) = 5     ^ the index after the last time of group 1 that is at most 2
    """

    def __init__(self, group_ids: Ints, times_us: Ints) -> None:
        self._low, self._high = (int(times_us.min()), int(times_us.max())) if len(times_us) else (0, 0)
        self._width = self._high - self._low + 2
        self._distinct_times: Ints | None = None
        if (int(group_ids[-1]) + 1 if len(group_ids) else 1) * self._width > LARGEST_KEY:
            self._distinct_times = np.unique(times_us)
            self._width = len(self._distinct_times) + 1
        self._keys = self._to_keys(group_ids, times_us)

    @classmethod
    def with_running_max(cls, group_ids: Ints, times_us: Ints) -> Self:
        """For each group the running maximum of its times, in whatever order they are.

        >>> owners, times = np.array([0, 0, 0]), np.array([5, 3, 8])
        >>> SortedTimes.with_running_max(owners, times).search_right(owners, np.array([4, 5, 8])).tolist()
        [0, 2, 3]
        """
        sorted_times = cls(group_ids, times_us)
        sorted_times._keys = np.maximum.accumulate(sorted_times._keys)
        return sorted_times

    def search_right(self, group_ids: Ints, times_us: Ints) -> Ints:
        """For each group, the index after its last time that is at most the given one."""
        return np.searchsorted(self._keys, self._to_keys(group_ids, times_us), side="right")

    def _to_keys(self, group_ids: Ints, times_us: Ints) -> Ints:
        """Group and time in one integer, in order; times out of range are just beyond the range."""
        keys: Ints = group_ids * self._width + self._to_ranks(times_us)
        return keys

    def _to_ranks(self, times_us: Ints) -> Ints:
        if self._distinct_times is not None:
            return np.searchsorted(self._distinct_times, times_us, side="right")
        return np.clip(times_us, self._low - 1, self._high) - (self._low - 1)
