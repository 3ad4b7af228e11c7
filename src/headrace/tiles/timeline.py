"""Many sorted lists of times in one array, searched all at once."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
LARGEST_KEY = 1 << 62


def by_owner_and_time(owners: Ints, times_us: Ints) -> Ints:
    """The order by owner, then time; in one number where both fit one, which sorts ten times as fast."""
    width = int(times_us.max()) - int(times_us.min()) + 1 if len(times_us) else 1
    if (int(owners.max(initial=0)) + 1) * width > LARGEST_KEY:
        return np.lexsort((times_us, owners))
    return np.argsort(owners * width + (times_us - times_us.min(initial=0)))


class Timeline:
    """Times by owner, sorted by both.

    owner   0          1             2
    times   3 5 9      2 2 8 8       1 7
    upto(1, 2) = 5     ^ the place after the last time of owner 1 that is at most 2
    """

    def __init__(self, owners: Ints, times_us: Ints) -> None:
        self._low, self._high = (int(times_us.min()), int(times_us.max())) if len(times_us) else (0, 0)
        self._width = self._high - self._low + 2
        self._ranked: Ints | None = None
        if (int(owners[-1]) + 1 if len(owners) else 1) * self._width > LARGEST_KEY:
            self._ranked = np.unique(times_us)
            self._width = len(self._ranked) + 1
        self._keys = self._keyed(owners, times_us)

    @classmethod
    def of_latest(cls, owners: Ints, times_us: Ints) -> Self:
        """Of each owner the greatest time up to each place, whatever the order they stand in.

        >>> owners, times = np.array([0, 0, 0]), np.array([5, 3, 8])
        >>> Timeline.of_latest(owners, times).upto(owners, np.array([4, 5, 8])).tolist()
        [0, 2, 3]
        """
        timeline = cls(owners, times_us)
        timeline._keys = np.maximum.accumulate(timeline._keys)
        return timeline

    def upto(self, owners: Ints, times_us: Ints) -> Ints:
        """Of each owner, the place after its last time that is at most the one given."""
        return np.searchsorted(self._keys, self._keyed(owners, times_us), side="right")

    def _keyed(self, owners: Ints, times_us: Ints) -> Ints:
        """Owner and time in one number, in their order; times beyond the ends are just beyond them."""
        keys: Ints = owners * self._width + self._places(times_us)
        return keys

    def _places(self, times_us: Ints) -> Ints:
        if self._ranked is not None:
            return np.searchsorted(self._ranked, times_us, side="right")
        return np.clip(times_us, self._low - 1, self._high) - (self._low - 1)
