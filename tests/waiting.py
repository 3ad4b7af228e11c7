"""Waits for a condition, never for a fixed time; limits are long enough for a busy machine."""

import time
from collections.abc import Callable

import pytest

# A limit only ends a test that hangs; a passing test never reaches it, so it need not be short.
PATIENCE = 4.0  # a multiple of the limit for an idle machine
LEAST_S = 60.0
SOCKET_S = LEAST_S  # a client's timeout for a response that must arrive
# Many conditions read a whole topic or table: pauses leave the cores to the system under test.
LEAST_PAUSE_S, MOST_PAUSE_S = 0.02, 0.5
PAUSES_PER_LOOK = 4.0


def patiently(limit_s: float) -> float:
    """Extend a limit on waiting for a busy machine."""
    return max(LEAST_S, PATIENCE * limit_s)


def wait_until(condition: Callable[[], object], limit_s: float, what: str, said: Callable[[], str] = str) -> None:
    """Wait for a condition; fail after the extended limit, with the output of `said`."""
    began, limit_s = time.monotonic(), patiently(limit_s)
    looked = began
    while not condition():
        now = time.monotonic()
        if now - began > limit_s:
            pytest.fail(f"waited {limit_s:.0f} s for {what}\n{said()}")
        time.sleep(min(max(LEAST_PAUSE_S, PAUSES_PER_LOOK * (now - looked)), MOST_PAUSE_S))
        looked = time.monotonic()
