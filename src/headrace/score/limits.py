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


class TooSlow(HeadraceError):
    """A model that has not answered in its time."""


class Limit:
    """What runs inside it is told to stop after some seconds; `is_over` once it was."""

    __slots__ = ("_stop", "_within_s", "deadline", "is_over")

    def __init__(self, within_s: float, stop: Callable[[], None]) -> None:
        self.is_over = False
        self._within_s = within_s
        self._stop = stop

    def __enter__(self) -> Self:
        self.deadline = time.monotonic() + self._within_s
        _WATCHDOG.watch(self)
        return self

    def __exit__(self, *_: object) -> None:
        _WATCHDOG.leave(self)

    def end(self) -> None:
        self.is_over = True
        self._stop()


class Watchdog:
    """Ends the limits that have passed; its thread is there only while something is watched, and a second more."""

    def __init__(self) -> None:
        self._watched: dict[int, Limit] = {}
        self._is_awake = False
        self._lock = Lock()

    def watch(self, limit: Limit) -> None:
        self._watched[id(limit)] = limit
        if not self._is_awake:
            self._wake()

    def leave(self, limit: Limit) -> None:
        self._watched.pop(id(limit), None)  # gone where its process was forked

    def forget(self) -> None:
        """Begin anew, in a process that was forked: its threads are gone."""
        self._watched, self._is_awake, self._lock = {}, False, Lock()

    def _wake(self) -> None:
        with self._lock:
            if not self._is_awake:
                self._is_awake = True
                Thread(target=self._run, name="headrace-limits", daemon=True).start()

    def _run(self) -> None:
        idle = 0
        while idle < IDLE_TICKS or not self._sleeps():
            time.sleep(TICK_S)
            watched = self._watched.copy()  # in one step: others add to it and take from it
            idle = 0 if watched else idle + 1
            now = time.monotonic()
            for limit in watched.values():
                if now >= limit.deadline and not limit.is_over:
                    limit.end()

    def _sleeps(self) -> bool:
        """Whether nothing is watched; who comes after this finds the watchdog asleep and wakes it."""
        with self._lock:
            self._is_awake = False
            self._is_awake = bool(self._watched)
            return not self._is_awake


_WATCHDOG = Watchdog()
os.register_at_fork(after_in_child=_WATCHDOG.forget)
