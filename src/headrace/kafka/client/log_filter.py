"""Drops repeated log messages: while a broker is down, each of many clients logs the same line every second."""

import logging
import re
import time
from collections.abc import Callable

REPEAT_INTERVAL_SECONDS = 60.0
MAX_MESSAGES = 1_000
# The client, its thread, and durations: the parts in which repeated messages differ.
_VARYING_PARTS = re.compile(r"\[rdkafka#[^\]]*\]|\[thrd:[^\]]*\]|\(after [^)]*\)|\d+ms|\d+/\d+")


class RepeatedMessageFilter(logging.Filter):
    """Passes each message once per interval, whichever client it is from."""

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
