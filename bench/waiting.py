"""Waiting for a condition, with a limit."""

import time
from collections.abc import Callable
from typing import TypeVar

from bench.errors import BenchFailed

Found = TypeVar("Found")


def wait_for(look: Callable[[], Found | None], limit_s: float, what: str, look_every_s: float = 0.05) -> Found:
    """Poll `look` until it returns a result."""
    deadline = time.monotonic() + limit_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise BenchFailed(f"Waited {limit_s:g} s for {what}.")
        time.sleep(look_every_s)
    return found
