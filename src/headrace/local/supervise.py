"""Keeps the parts of a running system up: each is watched by a thread of its own and restarted for ever, alone.

runs ── ends ── pause ── starts ── ends ── longer pause ── starts ─────────────── runs steadily
        ├─ down: since when, why, what is affected, when it is started next ─┤ "runs again after 12 s"
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol

from headrace.errors import HeadraceError
from headrace.local.child import Child
from headrace.local.exit_reason import exit_reason, first_sentence
from headrace.local.log_files import read_end, rotate_log

LOOK_EVERY_S = 0.2
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
SETTLED_AFTER_S = 10.0  # up for so long after one end, twice as long after two in a row, and so on
STEADY_AFTER_S = 60.0  # up for so long, the next end counts as the first
REMIND_AFTER_S = 600.0
STOP_GRACE_S = 30.0
STARTING, RUNNING, RESTARTING, STOPPED = "starting", "running", "restarting", "stopped"


class Part(Protocol):
    """Something that runs beside us."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def alive(self) -> bool: ...
    def exit_reason(self) -> str: ...


class ProcessPart:
    """A Headrace process of our own, with the logs of its last runs kept in files."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command, self.log = list(command), log
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.alive() else None

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        rotate_log(self.log)
        self._child = Child(self.command, folder=Path.cwd(), output=self.log)
        self._child.start()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(STOP_GRACE_S)

    def alive(self) -> bool:
        return self._child is not None and self._child.alive()

    def exit_reason(self) -> str:
        return exit_reason(read_end(self.log), None if self._child is None else self._child.exit_code)


@dataclass(frozen=True)
class PartState:
    """How a part fares: its state, how often it was restarted, since when it is down, why it ended last."""

    name: str
    state: str
    restarts: int = 0
    down_since_us: int | None = None
    error: str = ""
    affects: str = ""


def pause_after(failures: int) -> float:
    """How long to wait before a part is restarted that ended so many times in a row.

    >>> [pause_after(failures) for failures in (1, 2, 3, 6, 7, 1000)]
    [0.5, 1.0, 2.0, 16.0, 30.0, 30.0]
    """
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30))


class Keeper:
    """Starts one part, waits for its end and starts it again, until it is told to stop."""

    def __init__(self, name: str, part: Part, affects: str, say: Callable[[str], None]) -> None:
        self.part, self.has_started = part, Event()
        self._thread = Thread(target=self._run, name=f"keep {name}", daemon=True)
        self._part_name, self._affects, self._say = name, affects, say
        self._stopping, self._lock = Event(), Lock()
        self._state = PartState(name, STARTING, affects=affects)
        self._failures, self._down_since, self._started = 0, 0.0, 0.0
        self._said, self._said_at = ("", 0.0), 0.0

    @property
    def state(self) -> PartState:
        with self._lock:
            return self._state

    def start(self) -> None:
        """Start the part and keep it up from now on; returns at once."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            error = self._run_once()
            if not self._stopping.is_set():
                self._stopping.wait(self._fail(error))

    def stop(self) -> None:
        """End the part, whatever it is doing; it is not restarted."""
        self._stopping.set()
        self.part.stop()
        self._thread.join(STOP_GRACE_S)
        self.part.stop()  # one that was being started meanwhile
        self._become(state=STOPPED, down_since_us=None)

    def _run_once(self) -> str:
        """Start the part and wait for its end; why it ended."""
        try:
            self.part.start()
        except HeadraceError as error:
            return first_sentence(str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is tried again
            return first_sentence(f"{type(error).__name__}: {error}")
        self._started = time.monotonic()
        self.has_started.set()
        if not self._failures:
            self._become(state=RUNNING)
        elif not self._stopping.is_set():
            self._become(state=STARTING)
        while self.part.alive():
            self._settle()
            if self._stopping.wait(LOOK_EVERY_S):
                return ""
        reason = self.part.exit_reason()
        self.part.stop()
        return reason

    def _settle(self) -> None:
        """Note that a part which was down has run for a while, and later that it runs steadily."""
        ran_s = time.monotonic() - self._started
        if self._state.down_since_us is not None and ran_s >= settled_after(self._failures):
            self._say(f"{self._part_name} runs again after {self._started - self._down_since:.0f} s")
            self._become(state=RUNNING, down_since_us=None)
        if self._failures and ran_s >= STEADY_AFTER_S:
            self._failures, self._said = 0, ("", 0.0)

    def _fail(self, error: str) -> float:
        """Note that a part has ended; how long to wait before it is started again."""
        self._failures += 1
        pause_s, now = pause_after(self._failures), time.monotonic()
        before = self._state
        if before.down_since_us is None:
            self._down_since = now
        self._become(
            state=RESTARTING,
            restarts=before.restarts + 1,
            down_since_us=before.down_since_us or time.time_ns() // 1000,
            error=error,
        )
        if self._said != (error, pause_s) or now - self._said_at > REMIND_AFTER_S:
            self._said, self._said_at = (error, pause_s), now
            self._say(down_line(self._state, pause_s))
        return pause_s

    def _become(self, **changes: Any) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)


def settled_after(failures: int) -> float:
    """For how long a part must run after so many ends in a row before it is said to run again.

    >>> [settled_after(failures) for failures in (1, 2, 3, 4, 100)]
    [10.0, 20.0, 40.0, 60.0, 60.0]
    """
    return min(STEADY_AFTER_S, SETTLED_AFTER_S * 2.0 ** min(failures - 1, 10))


def down_line(state: PartState, pause_s: float) -> str:
    """What is said of a part that has ended."""
    affected = f" Affected: {state.affects}" if state.affects else ""
    why = state.error.removesuffix(".")
    return f"{state.name} is down (restart {state.restarts}, next in {pause_s:.3g} s): {why}.{affected}"


class Supervisor:
    """Starts parts, keeps each up in a thread of its own, and stops them in the opposite order."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self._keepers: dict[str, Keeper] = {}
        self._planned: dict[str, PartState] = {}

    def plan(self, name: str, affects: str = "") -> None:
        """Report a part as starting that is to be started later."""
        self._planned[name] = PartState(name, STARTING, affects=affects)

    def start(self, name: str, part: Part, affects: str = "") -> Keeper:
        """Start a part and keep it up from now on; returns at once."""
        keeper = self._keepers[name] = Keeper(name, part, affects, self.say)
        keeper.start()
        return keeper

    def states(self) -> list[PartState]:
        """How each part fares now."""
        started = {name: keeper.state for name, keeper in list(self._keepers.items())}
        return [*(self._planned | started).values()]

    def watch(self, until: Event, limit_s: float | None = None, each_look: Callable[[], None] | None = None) -> None:
        """Wait until the event is set or the time is over."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while not until.wait(LOOK_EVERY_S) and (deadline is None or time.monotonic() < deadline):
            if each_look is not None:
                each_look()

    def stop(self) -> None:
        """Stop every part, the last started first."""
        for name, keeper in reversed(self._keepers.items()):
            self.say(f"stopping {name}")
            keeper.stop()
