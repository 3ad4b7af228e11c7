"""Two counts over time: how much each has grown within any of the last windows."""

from bisect import bisect_right
from typing import NamedTuple

from headrace.declare.series import Burn, Objective

GRAINS = 12


class Grown(NamedTuple):
    """By how much each of two counts has grown."""

    bad: float
    total: float

    @property
    def share(self) -> float:
        return self.bad / self.total


class Climb:
    """A count that only grows: where it falls it has begun anew, and what it was before is unknown.

    >>> climb = Climb()
    >>> [climb.to(value) for value in (100, 103, None, 105, 2, 4)]
    [0.0, 3.0, 3.0, 5.0, 5.0, 7.0]
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._grown = 0.0

    def to(self, value: float | None) -> float:
        """How much it has grown since the first value."""
        if value is not None:
            self._grown += max(0.0, value - self._last) if self._last is not None else 0.0
            self._last = value
        return self._grown


class History:
    """Samples of two counts, as close as a twelfth of the shortest window and as far back as the longest."""

    def __init__(self, shortest_us: int, longest_us: int) -> None:
        self._grain_us, self._longest_us = shortest_us // GRAINS, longest_us
        self._bad, self._total = Climb(), Climb()
        self._times: list[int] = []
        self._kept: list[Grown] = []
        self._now = Grown(0.0, 0.0)

    def __len__(self) -> int:
        return len(self._times)

    def add(self, bad: float | None, total: float | None, now_us: int) -> None:
        """What both are now."""
        self._now = Grown(self._bad.to(bad), self._total.to(total))
        if self._times and now_us - self._times[-1] < self._grain_us:
            return
        self._times.append(now_us)
        self._kept.append(self._now)
        outside = bisect_right(self._times, now_us - self._longest_us) - 1
        if outside > len(self._times) // 2:
            del self._times[:outside], self._kept[:outside]

    def reaches(self, window_us: int, now_us: int) -> bool:
        """Whether there were samples so long ago."""
        return self._times[0] <= now_us - window_us

    def within(self, window_us: int, now_us: int) -> Grown:
        """Growth in a window, or since the first sample where that is later."""
        before = self._kept[max(0, bisect_right(self._times, now_us - window_us) - 1)]
        return Grown(self._now.bad - before.bad, self._now.total - before.total)


def burned(objective: Objective, history: History, now_us: int) -> tuple[float, Burn] | None:
    """How near an objective is to its nearest alarm, 1 being there, and of which windows; None of too few.

    A young history is no three days: longer windows are asked once it reaches further than the windows before them.
    """
    shorter_us = (0, *(burn.long_us for burn in objective.burns))
    near = [
        (_rate(objective, history, burn, now_us) / burn.times, burn)
        for burn, reach_us in zip(objective.burns, shorter_us, strict=False)
        if history.reaches(reach_us, now_us) and history.within(burn.long_us, now_us).total >= objective.at_least
    ]
    return max(near, key=lambda one: one[0], default=None)


def _rate(objective: Objective, history: History, burn: Burn, now_us: int) -> float:
    """How many times as fast as allowed the lesser of two windows loses."""
    shares = (history.within(window_us, now_us) for window_us in (burn.long_us, burn.short_us))
    return min(grown.share if grown.total else 0.0 for grown in shares) / objective.allowed
