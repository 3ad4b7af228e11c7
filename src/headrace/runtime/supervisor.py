"""Keeps the parts of a running system up: each has its own thread, which restarts it for ever, alone.

runs ── ends ── pause ── starts ── ends ── longer pause ── starts ─────────────── runs steadily
        ├─ down: since when, why, what is affected, time of next start ─┤ "runs again after 12 s"
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.exit_reason import exit_reason, first_sentence
from headrace.embedded_servers.log_files import read_log_tail, rotate_log
from headrace.errors import HeadraceError

LOOK_EVERY_S = 0.2
INITIAL_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
RECOVERED_AFTER_S = 10.0  # uptime until recovered after one failure; twice as long after two in a row, and so on
RESET_BACKOFF_AFTER_S = 60.0  # after this uptime, the next failure counts as the first
REPEAT_REPORT_AFTER_S = 600.0
STOP_GRACE_S = 30.0
STARTING, RUNNING, RESTARTING, STOPPED = "starting", "running", "restarting", "stopped"


class SupervisedPart(Protocol):
    """Something that the supervisor starts, watches and stops."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def is_alive(self) -> bool: ...
    def exit_reason(self) -> str: ...


class ProcessPart:
    """A part in a child process; the logs of its last runs are kept in files."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command, self.log = list(command), log
        self._child: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.is_alive() else None

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        rotate_log(self.log)
        self._child = ChildProcess(self.command, folder=Path.cwd(), output=self.log)
        self._child.start()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(STOP_GRACE_S)

    def is_alive(self) -> bool:
        return self._child is not None and self._child.is_alive()

    def exit_reason(self) -> str:
        return exit_reason(read_log_tail(self.log), None if self._child is None else self._child.exit_code)


@dataclass(frozen=True)
class PartState:
    """The state of a part: its restarts, since when it is down, and why it ended last."""

    name: str
    state: str
    restarts: int = 0
    down_since_us: int | None = None
    error: str = ""
    affects: str = ""


def restart_backoff_s(failures: int) -> float:
    """The pause before a part is restarted after `failures` failures in a row.

    >>> [restart_backoff_s(failures) for failures in (1, 2, 3, 6, 7, 1000)]
    [0.5, 1.0, 2.0, 16.0, 30.0, 30.0]
    """
    return min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2.0 ** min(failures - 1, 30))


class PartSupervisor:
    """Starts one part, waits for its end and restarts it, until it is stopped."""

    def __init__(self, name: str, part: SupervisedPart, affects: str, report: Callable[[str], None]) -> None:
        self.part, self.has_started = part, Event()
        self._thread = Thread(target=self._run, name=f"keep {name}", daemon=True)
        self._part_name, self._affects, self._report = name, affects, report
        self._stopping, self._lock = Event(), Lock()
        self._state = PartState(name, STARTING, affects=affects)
        self._failures, self._down_since, self._started = 0, 0.0, 0.0
        self._last_report, self._last_report_at = ("", 0.0), 0.0

    @property
    def state(self) -> PartState:
        with self._lock:
            return self._state

    def start(self) -> None:
        """Start the part and keep it running; returns at once."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            error = self._run_once()
            if not self._stopping.is_set():
                self._stopping.wait(self._note_failure(error))

    def stop(self) -> None:
        """Stop the part; it is not restarted."""
        self._stopping.set()
        self.part.stop()
        self._thread.join(STOP_GRACE_S)
        self.part.stop()  # if the thread was starting it meanwhile
        self._update_state(state=STOPPED, down_since_us=None)

    def _run_once(self) -> str:
        """Start the part and wait for its end; returns why it ended."""
        try:
            self.part.start()
        except HeadraceError as error:
            return first_sentence(str(error))
        except Exception as error:  # noqa: BLE001  # any failure is retried
            return first_sentence(f"{type(error).__name__}: {error}")
        self._started = time.monotonic()
        self.has_started.set()
        if not self._failures:
            self._update_state(state=RUNNING)
        elif not self._stopping.is_set():
            self._update_state(state=STARTING)
        while self.part.is_alive():
            self._note_recovery()
            if self._stopping.wait(LOOK_EVERY_S):
                return ""
        reason = self.part.exit_reason()
        self.part.stop()
        return reason

    def _note_recovery(self) -> None:
        """Report a recovery once the part has run for long enough, and reset the back-off once it runs steadily."""
        uptime_s = time.monotonic() - self._started
        if self._state.down_since_us is not None and uptime_s >= recovery_time_s(self._failures):
            self._report(f"{self._part_name} runs again after {self._started - self._down_since:.0f} s")
            self._update_state(state=RUNNING, down_since_us=None)
        if self._failures and uptime_s >= RESET_BACKOFF_AFTER_S:
            self._failures, self._last_report = 0, ("", 0.0)

    def _note_failure(self, error: str) -> float:
        """Record that the part has ended; returns the back-off before the restart."""
        self._failures += 1
        backoff_s, now = restart_backoff_s(self._failures), time.monotonic()
        previous = self._state
        if previous.down_since_us is None:
            self._down_since = now
        self._update_state(
            state=RESTARTING,
            restarts=previous.restarts + 1,
            down_since_us=previous.down_since_us or time.time_ns() // 1000,
            error=error,
        )
        if self._last_report != (error, backoff_s) or now - self._last_report_at > REPEAT_REPORT_AFTER_S:
            self._last_report, self._last_report_at = (error, backoff_s), now
            self._report(format_down_line(self._state, backoff_s))
        return backoff_s

    def _update_state(self, **changes: Any) -> None:
        with self._lock:
            self._state = replace(self._state, **changes)


def recovery_time_s(failures: int) -> float:
    """The uptime after which a part has recovered from `failures` failures in a row.

    >>> [recovery_time_s(failures) for failures in (1, 2, 3, 4, 100)]
    [10.0, 20.0, 40.0, 60.0, 60.0]
    """
    return min(RESET_BACKOFF_AFTER_S, RECOVERED_AFTER_S * 2.0 ** min(failures - 1, 10))


def format_down_line(state: PartState, backoff_s: float) -> str:
    """The log line of a part that has ended."""
    affects_text = f" Affected: {state.affects}" if state.affects else ""
    reason = state.error.removesuffix(".")
    return f"{state.name} is down (restart {state.restarts}, next in {backoff_s:.3g} s): {reason}.{affects_text}"


class Supervisor:
    """Starts parts, keeps each running in its own thread, and stops them in reverse order."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.report = report
        self._part_supervisors: dict[str, PartSupervisor] = {}
        self._planned: dict[str, PartState] = {}

    def plan(self, name: str, affects: str = "") -> None:
        """Report a part as starting before it is started."""
        self._planned[name] = PartState(name, STARTING, affects=affects)

    def start(self, name: str, part: SupervisedPart, affects: str = "") -> PartSupervisor:
        """Start a part and keep it running; returns at once."""
        part_supervisor = self._part_supervisors[name] = PartSupervisor(name, part, affects, self.report)
        part_supervisor.start()
        return part_supervisor

    def states(self) -> list[PartState]:
        """The current state of each part."""
        started = {name: part_supervisor.state for name, part_supervisor in list(self._part_supervisors.items())}
        return [*(self._planned | started).values()]

    def watch(self, until: Event, limit_s: float | None = None, on_poll: Callable[[], None] | None = None) -> None:
        """Wait until the event is set or the time limit is reached."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while not until.wait(LOOK_EVERY_S) and (deadline is None or time.monotonic() < deadline):
            if on_poll is not None:
                on_poll()

    def stop(self) -> None:
        """Stop every part, in reverse order of their start."""
        for name, part_supervisor in reversed(self._part_supervisors.items()):
            self.report(f"stopping {name}")
            part_supervisor.stop()
