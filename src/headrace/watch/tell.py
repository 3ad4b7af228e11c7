"""What is told of alerts: one notification for each group, of all that has changed and is not silenced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.declare.alert import Alert
from headrace.watch.phases import Phase, State

_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class Change:
    """An alert that fires or is resolved, with the words for it."""

    alert: Alert
    state: State
    said: str

    @property
    def phase(self) -> Phase:
        return self.state.settled

    @property
    def text(self) -> str:
        """One line: what, how much, why, and what to run."""
        verb = "firing" if self.phase is Phase.FIRING else "resolved"
        side = f"above {self.alert.limit:g}" if self.alert.below is None else f"below {self.alert.limit:g}"
        rest = f" {self.alert.why}" if self.alert.why and self.phase is Phase.FIRING else ""
        run = f" Run: {self.alert.run}" if self.alert.run and self.phase is Phase.FIRING else ""
        return f"[{verb}] {self.alert.name} ({self.alert.severity}): {self.said}, alarmed {side}.{rest}{run}"

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "name": self.alert.name,
            "status": "firing" if self.phase is Phase.FIRING else "resolved",
            "severity": self.alert.severity,
            "on": self.alert.on.text,
            "value": finite(self.state.value),
            "limit": self.alert.limit,
            "since": when(self.state.since_us),
            "why": self.alert.why,
            "run": self.alert.run,
        }


@dataclass(frozen=True)
class Notification:
    """What has changed in one group."""

    group: str
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        return "\n".join([f"Headrace, {self.group}:", *(change.text for change in self.changes)])

    @property
    def body(self) -> dict[str, Any]:
        """As Slack and whoever speaks its words takes it, and each change in fields beside it."""
        return {
            "text": self.text.translate(_SLACK),
            "group": self.group,
            "alerts": [change.fields for change in self.changes],
        }


def grouped(changes: Iterable[Change]) -> list[Notification]:
    """One notification for each group, firing before resolved, in the order of declaration."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.alert.group, []).append(change)
    return [
        Notification(group, tuple(sorted(found, key=lambda change: change.phase is not Phase.FIRING)))
        for group, found in groups.items()
    ]


def is_due(name: str, state: State, silences: Mapping[str, int], now_us: int) -> bool:
    """Whether others know less than there is to know, and want to."""
    return state.told is not state.settled and silences.get(name, 0) <= now_us


def when(at_us: int) -> str:
    """A time as it is written everywhere.

    >>> when(1_767_225_600_000_000)
    '2026-01-01T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def finite(value: float | None) -> float | str | None:
    """A value as JSON can say it."""
    return value if value is None or abs(value) != float("inf") else str(value)
