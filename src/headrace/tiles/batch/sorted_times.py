"""Many sorted lists of times in one array, searched all at once."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
LARGEST_KEY = 1 << 62


def order_by_group_and_time(group_ids: Ints, times_us: Ints) -> Ints:
    """The order by owner, then time; in one number where both fit one, which sorts ten times as fast."""
    width = int(times_us.max()) - int(times_us.min()) + 1 if len(times_us) else 1
    if (int(group_ids.max(initial=0)) + 1) * width > LARGEST_KEY:
        return np.lexsort((times_us, group_ids))
    return np.argsort(group_ids * width + (times_us - times_us.min(initial=0)))


class SortedTimes:
    """Times by owner, sorted by both.

    owner   0          1             2
    times   3 5 9      2 2 8 8       1 7
    upto(1, 2) = 5     ^ the place after the last time of owner 1 that is at most 2
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
        """Of each owner the greatest time up to each place, whatever the order they stand in.

        >>> owners, times = np.array([0, 0, 0]), np.array([5, 3, 8])
        >>> SortedTimes.with_running_max(owners, times).search_right(owners, np.array([4, 5, 8])).tolist()
        [0, 2, 3]
        """
        sorted_times = cls(group_ids, times_us)
        sorted_times._keys = np.maximum.accumulate(sorted_times._keys)
        return sorted_times

    def search_right(self, group_ids: Ints, times_us: Ints) -> Ints:
        """Of each owner, the place after its last time that is at most the one given."""
        return np.searchsorted(self._keys, self._to_keys(group_ids, times_us), side="right")

    def _to_keys(self, group_ids: Ints, times_us: Ints) -> Ints:
        """Owner and time in one number, in their order; times beyond the ends are just beyond them."""
        keys: Ints = group_ids * self._width + self._to_ranks(times_us)
        return keys

    def _to_ranks(self, times_us: Ints) -> Ints:
        if self._distinct_times is not None:
            return np.searchsorted(self._distinct_times, times_us, side="right")
        return np.clip(times_us, self._low - 1, self._high) - (self._low - 1)
