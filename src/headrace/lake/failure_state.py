"""Failures of a part of the lake: since when, why, and when to retry.

failure   ✗ 1 s ✗  2 s  ✗    4 s    ✗ …… 60 s …… ✓
          └ down_since_us                         └ cleared
"""

import re
import time
from dataclasses import dataclass, field

from headrace.kafka.workers.worker_health import Backoff, RestartPolicy
from headrace.spark.session.error_summary import summarize_spark_error

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_RUST_STACK = re.compile(r"\s+0: (?:<unknown>|\S+::).*", re.DOTALL)


def summarize_failure(failure: BaseException) -> str:
    """Why something failed, in one sentence, without the stack that deltalake puts into its messages."""
    return _RUST_STACK.sub("", summarize_spark_error(failure))


@dataclass
class FailureState:
    """The failures of one table or worker since its last success; each pause is twice the one before."""

    first_pause_s: float = FIRST_PAUSE_SECONDS
    longest_pause_s: float = LONGEST_PAUSE_SECONDS
    down_since_us: int | None = None
    error: str = ""  # in one sentence
    failures: int = 0
    _retry_at: float = 0.0
    _backoff: Backoff = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Jitter: tables that failed together do not retry together.
        self._backoff = Backoff(RestartPolicy(self.first_pause_s, self.longest_pause_s, shortest_share=0.5))

    @property
    def is_due(self) -> bool:
        """Whether the pause since the last failure is over."""
        return time.monotonic() >= self._retry_at

    @property
    def pause_s(self) -> float:
        """The rest of the pause."""
        return max(0.0, self._retry_at - time.monotonic())

    def record_failure(self, failure: Exception) -> bool:
        """Record a failure and start the next pause; returns whether it differs from the one before."""
        previous_error, self.error = self.error, summarize_failure(failure)
        self.down_since_us = self.down_since_us or time.time_ns() // 1000
        self._retry_at = time.monotonic() + self._backoff.next_pause_s(ran_s=0.0)
        self.failures += 1
        return self.error != previous_error

    def record_success(self) -> bool:
        """Clear the failures; returns whether there were any."""
        was_down = self.failures > 0
        self.down_since_us, self.error, self.failures, self._retry_at = None, "", 0, 0.0
        self._backoff.reset()
        return was_down
