"""A log without what a client repeats: while a broker is away, each of many clients says so every second."""

import logging
import re
import time
from collections.abc import Callable

EVERY_SECONDS = 60.0
MOST_KEPT = 1_000
# Which client, which of its threads, and how long it took: what differs between two that say the same.
_VARYING = re.compile(r"\[rdkafka#[^\]]*\]|\[thrd:[^\]]*\]|\(after [^)]*\)|\d+ms|\d+/\d+")


class RepeatFilter(logging.Filter):
    """Lets each message through once in so many seconds, whichever client it is of."""

    def __init__(self, every_s: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s, self._clock = every_s, clock
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said, now = _VARYING.sub("", record.getMessage()), self._clock()
        if now - self._last.get(said, -self._every_s) < self._every_s:
            return False
        if len(self._last) >= MOST_KEPT:
            self._last.clear()
        self._last[said] = now
        return True
