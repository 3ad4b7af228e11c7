"""The failures of one worker: the back-off before each restart, and what is reported of them.

runs ──fails──▶ 1 s ──fails──▶ 2 s ──fails──▶ 4 s … 60 s, 60 s ──▶ runs steadily for 2 min: the back-off is reset
     └── down, with the error ──────────────────────────────┘ └── up; the error is shown until it runs steadily ──▶
"""

import random
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartPolicy:
    """The pauses between restarts, and after how long a worker counts as steady again."""

    first_pause_s: float = 1.0
    max_pause_s: float = 60.0
    steady_after_s: float = 120.0  # after running this long, the back-off is reset
    clear_error_after_s: float = 120.0  # after running this long, its error is cleared
    shortest_share: float = 1.0  # of a pause; below 1 is jitter: workers that failed together do not retry together


class Backoff:
    """The pause before each restart: doubles, unless the worker ran steadily in between."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy, self._next_pause_s = policy, policy.first_pause_s

    def next_pause_s(self, ran_s: float) -> float:
        """The pause after an attempt that ran for this long."""
        if ran_s >= self._policy.steady_after_s:
            self.reset()
        pause_s, self._next_pause_s = self._next_pause_s, min(2 * self._next_pause_s, self._policy.max_pause_s)
        return pause_s * random.uniform(self._policy.shortest_share, 1.0)  # noqa: S311  # not for security

    def reset(self) -> None:
        """Start from the beginning, after a success."""
        self._next_pause_s = self._policy.first_pause_s


class WorkerHealth:
    """The failures of a worker: the number of restarts, since when it is down, and why."""

    def __init__(self, clear_error_after_s: float) -> None:
        self.restarts, self.error = 0, ""
        self.down_since_us: int | None = None
        self._clear_error_after_us, self._up_since_us = int(clear_error_after_s * 1_000_000), 0
        self._is_backing_off = False

    def record_failure(self, error: str, now_us: int) -> None:
        self.error, self._is_backing_off = error, True
        self.down_since_us = self.down_since_us or now_us

    def record_restart(self) -> None:
        """Count another attempt; the worker stays down until it is seen working."""
        self.restarts += 1
        self._is_backing_off = False

    def record_working(self, now_us: int) -> None:
        """Record that the worker is working."""
        if self._is_backing_off:
            return
        if self.down_since_us is not None:
            self.down_since_us, self._up_since_us = None, now_us
        elif now_us - self._up_since_us >= self._clear_error_after_us:
            self.error = ""

    @property
    def is_down(self) -> bool:
        return self.down_since_us is not None


def current_time_us() -> int:
    return time.time_ns() // 1000
