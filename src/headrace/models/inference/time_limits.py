"""Limits of time: one thread ends whatever takes longer than it may, however many threads score.

onnxruntime ends a run between two operators, and a load between two passes over the graph. So what loops for ever is
ended at once; one enormous multiplication is ended after it.
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
    """A model that has not answered in its time."""


class TimeLimit:
    """What runs inside it is told to stop after some seconds; `is_over` once it was."""

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
    """Ends the limits that have passed; its thread is there only while something is watched, and a second more."""

    def __init__(self) -> None:
        self._limits: dict[int, TimeLimit] = {}
        self._is_running = False
        self._lock = Lock()

    def watch(self, limit: TimeLimit) -> None:
        self._limits[id(limit)] = limit
        if not self._is_running:
            self._start_thread()

    def unwatch(self, limit: TimeLimit) -> None:
        self._limits.pop(id(limit), None)  # gone where its process was forked

    def reset_after_fork(self) -> None:
        """Begin anew, in a process that was forked: its threads are gone."""
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
            limits = self._limits.copy()  # in one step: others add to it and take from it
            idle_ticks = 0 if limits else idle_ticks + 1
            now = time.monotonic()
            for limit in limits.values():
                if now >= limit.deadline and not limit.is_expired:
                    limit.expire()

    def _stop_if_idle(self) -> bool:
        """Whether nothing is watched; who comes after this finds the watchdog asleep and wakes it."""
        with self._lock:
            self._is_running = False
            self._is_running = bool(self._limits)
            return not self._is_running


_WATCHDOG = Watchdog()
os.register_at_fork(after_in_child=_WATCHDOG.reset_after_fork)
