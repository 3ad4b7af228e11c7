"""Keeps the parts of a running system up: what dies is started again, what keeps dying is given up."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.local.child import Child

LOOK_EVERY_S = 0.2
STEADY_AFTER_S = 30.0
FAILURES_ALLOWED = 5
PATIENCE_S = 240.0
LONGEST_PAUSE_S = 8.0
LAST_LINES = 12
STOP_GRACE_S = 30.0


class PartFailed(HeadraceError):
    """A part of the system ended again and again."""


class Part(Protocol):
    """Something that runs beside us."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def alive(self) -> bool: ...
    def last_words(self) -> str: ...


class ProcessPart:
    """A Headrace process of our own, with its log kept in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command, self.log = list(command), log
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.alive() else None

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        self._child = Child(self.command, folder=Path.cwd(), output=self.log)
        self._child.start()

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop(STOP_GRACE_S)

    def alive(self) -> bool:
        return self._child is not None and self._child.alive()

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LAST_LINES:])


@dataclass
class _Watched:
    part: Part
    started: float = 0.0
    failures: int = 0
    failing_since: float = 0.0
    not_before: float = 0.0
    trouble: str = ""

    def last_words(self) -> str:
        """Why it did not start, or else what it said last."""
        return self.trouble or self.part.last_words()


@dataclass
class Supervisor:
    """Starts parts in order, watches them, and stops them in the opposite order."""

    say: Callable[[str], None]
    _parts: dict[str, _Watched] = field(default_factory=dict)

    def start(self, name: str, part: Part) -> None:
        """Start a part and watch it from now on."""
        self._parts[name] = _Watched(part)
        part.start()
        self._parts[name].started = time.monotonic()

    def watch(self, until: Event, limit_s: float | None = None, each_look: Callable[[], None] | None = None) -> None:
        """Keep the parts up until the event is set or the time is over."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while not until.wait(LOOK_EVERY_S) and (deadline is None or time.monotonic() < deadline):
            self.look()
            if each_look is not None:
                each_look()

    def look(self) -> None:
        """Start again what has ended."""
        for name, watched in self._parts.items():
            if not watched.part.alive():
                self._ended(name, watched)

    def _ended(self, name: str, watched: _Watched) -> None:
        now = time.monotonic()
        if watched.not_before == 0.0:
            if watched.failures == 0 or now - watched.started > STEADY_AFTER_S:
                watched.failures, watched.failing_since = 0, now
            watched.failures += 1
            if watched.failures > FAILURES_ALLOWED and now - watched.failing_since > PATIENCE_S:
                raise PartFailed(
                    f"{name} ended {watched.failures} times in a row. Its last words:\n{watched.last_words()}"
                )
            watched.not_before = now + min(LONGEST_PAUSE_S, 0.25 * 2**watched.failures)
            self.say(f"{name} ended; starting it again")
        if now >= watched.not_before:
            self._start_again(name, watched)

    def _start_again(self, name: str, watched: _Watched) -> None:
        watched.part.stop()
        watched.not_before, watched.trouble = 0.0, ""
        try:
            watched.part.start()
        except HeadraceError as error:
            watched.trouble = str(error)
            self.say(f"{name} did not start: {error}")
        watched.started = time.monotonic()

    def stop(self) -> None:
        """Stop every part, the last started first."""
        for name, watched in reversed(self._parts.items()):
            self.say(f"stopping {name}")
            watched.part.stop()
