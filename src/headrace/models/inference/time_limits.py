"""Time limits: one thread stops whatever exceeds its limit, however many threads score.

onnxruntime stops a run between two operators, and a load between two passes over the graph. So an endless loop is
stopped at once; one enormous multiplication only after it.
"""

import os
import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Self

from headrace.errors import HeadraceError

TICK_S = 0.01
IDLE_TICKS = 100


class ModelTimeoutError(HeadraceError):
    """A model has exceeded its time limit."""


class TimeLimit:
    """A block that is stopped after some seconds; `is_over` is set once it was."""

    __slots__ = ("_on_timeout", "_timeout_s", "deadline", "is_expired")

    def __init__(self, timeout_s: float, on_timeout: Callable[[], None]) -> None:
        self.is_expired = False
        self._timeout_s = timeout_s
        self._on_timeout = on_timeout

    def __enter__(self) -> Self:
        self.deadline = time.monotonic() + self._timeout_s
        _WATCHDOG.watch(self)
        return self

    def __exit__(self, *_: object) -> None:
        _WATCHDOG.unwatch(self)

    def expire(self) -> None:
        self.is_expired = True
        self._on_timeout()


class Watchdog:
    """Enforces time limits; its thread exists only while there is a limit, and a second longer."""

    def __init__(self) -> None:
        self._limits: dict[int, TimeLimit] = {}
        self._is_running = False
        self._lock = Lock()

    def watch(self, limit: TimeLimit) -> None:
        self._limits[id(limit)] = limit
        if not self._is_running:
            self._start_thread()

    def unwatch(self, limit: TimeLimit) -> None:
        self._limits.pop(id(limit), None)  # missing after a fork

    def reset_after_fork(self) -> None:
        """Reset after a fork: the child process has no threads of its parent."""
        self._limits, self._is_running, self._lock = {}, False, Lock()

    def _start_thread(self) -> None:
        with self._lock:
            if not self._is_running:
                self._is_running = True
                Thread(target=self._run, name="headrace-limits", daemon=True).start()

    def _run(self) -> None:
        idle_ticks = 0
        while idle_ticks < IDLE_TICKS or not self._stop_if_idle():
            time.sleep(TICK_S)
            limits = self._limits.copy()  # atomic, since other threads change it
            idle_ticks = 0 if limits else idle_ticks + 1
            now = time.monotonic()
            for limit in limits.values():
                if now >= limit.deadline and not limit.is_expired:
                    limit.expire()

    def _stop_if_idle(self) -> bool:
        """Stop if there is no limit; the next one starts the watchdog again."""
        with self._lock:
            self._is_running = False
            self._is_running = bool(self._limits)
            return not self._is_running


_WATCHDOG = Watchdog()
os.register_at_fork(after_in_child=_WATCHDOG.reset_after_fork)
