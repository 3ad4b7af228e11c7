"""Waiting for a condition, never for a fixed time."""

import time
from collections.abc import Callable

import pytest


def wait_until(condition: Callable[[], object], limit_s: float, what: str, said: Callable[[], str] = str) -> None:
    """Wait for a condition; fail once the limit has passed, with what was said meanwhile."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {limit_s} s for {what}\n{said()}")
        time.sleep(0.02)
