"""Samples of two counters over time: the increase of each within any of the last windows."""

from bisect import bisect_right
from typing import NamedTuple

from headrace.declare.alerts.alert_values import BurnRate, Objective

SAMPLES_PER_WINDOW = 12


class CounterIncrease(NamedTuple):
    """The increase of each of two counters."""

    bad: float
    total: float

    @property
    def share(self) -> float:
        return self.bad / self.total


class ResettableCounter:
    """A counter whose resets are tolerated: where it falls it has restarted from 0, and what was missed is unknown.

    >>> climb = ResettableCounter()
    >>> [climb.observe(value) for value in (100, 103, None, 105, 2, 4)]
    [0.0, 3.0, 3.0, 5.0, 5.0, 7.0]
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._increase = 0.0

    def observe(self, value: float | None) -> float:
        """The increase since the first value."""
        if value is not None:
            self._increase += max(0.0, value - self._last) if self._last is not None else 0.0
            self._last = value
        return self._increase


class CounterHistory:
    """Samples of two counters, as close as a twelfth of the shortest window and as far back as the longest."""

    def __init__(self, shortest_us: int, longest_us: int) -> None:
        self._resolution_us, self._longest_us = shortest_us // SAMPLES_PER_WINDOW, longest_us
        self._bad, self._total = ResettableCounter(), ResettableCounter()
        self._times: list[int] = []
        self._increases: list[CounterIncrease] = []
        self._latest = CounterIncrease(0.0, 0.0)

    def __len__(self) -> int:
        return len(self._times)

    def add(self, bad: float | None, total: float | None, now_us: int) -> None:
        """Add the current value of both."""
        self._latest = CounterIncrease(self._bad.observe(bad), self._total.observe(total))
        if self._times and now_us - self._times[-1] < self._resolution_us:
            return
        self._times.append(now_us)
        self._increases.append(self._latest)
        expired = bisect_right(self._times, now_us - self._longest_us) - 1
        if expired > len(self._times) // 2:
            del self._times[:expired], self._increases[:expired]

    def has_full_window(self, window_us: int, now_us: int) -> bool:
        """Whether there is a sample at least as old as the window."""
        return self._times[0] <= now_us - window_us

    def increase_within(self, window_us: int, now_us: int) -> CounterIncrease:
        """The increase in a window, or since the first sample where that is later."""
        start = self._increases[max(0, bisect_right(self._times, now_us - window_us) - 1)]
        return CounterIncrease(self._latest.bad - start.bad, self._latest.total - start.total)


def worst_burn_rate(objective: Objective, history: CounterHistory, now_us: int) -> tuple[float, BurnRate] | None:
    """The highest burn rate relative to its alarm (1 fires), and its windows; None with too few events.

    A pair of windows is used only once the history covers the long window of the pair before it.
    """
    previous_windows_us = (0, *(burn.long_window_us for burn in objective.burn_rates))
    burn_rates = [
        (_burn_rate(objective, history, burn, now_us) / burn.factor, burn)
        for burn, previous_window_us in zip(objective.burn_rates, previous_windows_us, strict=False)
        if history.has_full_window(previous_window_us, now_us)
        and history.increase_within(burn.long_window_us, now_us).total >= objective.at_least
    ]
    return max(burn_rates, key=lambda burn_rate: burn_rate[0], default=None)


def _burn_rate(objective: Objective, history: CounterHistory, burn: BurnRate, now_us: int) -> float:
    """The lower burn rate of two windows, as a multiple of the allowed one."""
    shares = (history.increase_within(window_us, now_us) for window_us in (burn.long_window_us, burn.short_window_us))
    return min(increase.share if increase.total else 0.0 for increase in shares) / objective.allowed
