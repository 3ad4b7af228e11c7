"""Waiting for a condition, never for a fixed time."""

import time
from collections.abc import Callable

import pytest


def wait_until(condition: Callable[[], object], limit_s: float, what: str) -> None:
    """Wait for a condition; fail once the limit has passed."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {limit_s} s for {what}")
        time.sleep(0.02)
