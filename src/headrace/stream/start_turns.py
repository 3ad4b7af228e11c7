"""Turns in which the operations of a driver start: the Python workers of one are there before the next begins.

Each start of an operation runs a Python process that has to connect within ten seconds, which Spark does not let one
change: several at once on a busy machine would not.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_TURN_SECONDS = 60.0  # a first batch may take longer than its workers need to come up
LOOK_SECONDS = 0.2


class Turn:
    """The time in which one operation starts alone."""

    def __init__(self, longest_s: float) -> None:
        self._until_s = time.monotonic() + longest_s

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until_s


class StartTurns:
    """Gives one turn at a time."""

    def __init__(self, longest_s: float = LONGEST_TURN_SECONDS) -> None:
        self._lock, self._longest_s = threading.Lock(), longest_s

    @contextmanager
    def turn(self, stopped: threading.Event) -> Iterator[Turn | None]:
        """A turn for the length of the block; None where one is stopped while waiting for it."""
        while not stopped.is_set():
            if self._lock.acquire(timeout=LOOK_SECONDS):
                try:
                    yield Turn(self._longest_s)
                finally:
                    self._lock.release()
                return
        yield None
