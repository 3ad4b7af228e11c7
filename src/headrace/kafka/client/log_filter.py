"""A log without what a client repeats: while a broker is away, each of many clients says so every second."""

import logging
import re
import time
from collections.abc import Callable

REPEAT_INTERVAL_SECONDS = 60.0
MAX_MESSAGES = 1_000
# Which client, which of its threads, and how long it took: what differs between two that say the same.
_VARYING_PARTS = re.compile(r"\[rdkafka#[^\]]*\]|\[thrd:[^\]]*\]|\(after [^)]*\)|\d+ms|\d+/\d+")


class RepeatedMessageFilter(logging.Filter):
    """Lets each message through once in so many seconds, whichever client it is of."""

    def __init__(
        self, interval_s: float = REPEAT_INTERVAL_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._interval_s, self._clock = interval_s, clock
        self._last_passed_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message, now = _VARYING_PARTS.sub("", record.getMessage()), self._clock()
        if now - self._last_passed_s.get(message, -self._interval_s) < self._interval_s:
            return False
        if len(self._last_passed_s) >= MAX_MESSAGES:
            self._last_passed_s.clear()
        self._last_passed_s[message] = now
        return True
