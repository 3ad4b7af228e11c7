"""Serializes the starts of a driver's operations: the Python workers of one are up before the next starts.

Each start of an operation runs a Python process that must connect within ten seconds, which Spark does not make
configurable: several at once on a busy machine would not.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MAX_TURN_SECONDS = 60.0  # a first batch may take longer than its workers need to come up
POLL_SECONDS = 0.2


class StartSlot:
    """The time in which one operation starts alone."""

    def __init__(self, max_seconds: float) -> None:
        self._ends_at_s = time.monotonic() + max_seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._ends_at_s


class StartLock:
    """Gives one turn at a time."""

    def __init__(self, max_seconds: float = MAX_TURN_SECONDS) -> None:
        self._lock, self._max_seconds = threading.Lock(), max_seconds

    @contextmanager
    def acquire_slot(self, stopped: threading.Event) -> Iterator[StartSlot | None]:
        """A turn for the length of the block; None where `stopped` is set while waiting for it."""
        while not stopped.is_set():
            if self._lock.acquire(timeout=POLL_SECONDS):
                try:
                    yield StartSlot(self._max_seconds)
                finally:
                    self._lock.release()
                return
        yield None
