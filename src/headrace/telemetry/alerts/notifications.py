"""One notification for each alert group, with every change that is due and not silenced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.declare.alerts.alert import Alert
from headrace.telemetry.alerts.alert_state import AlertState, Phase

_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class AlertChange:
    """An alert that fires or is resolved, and its description."""

    alert: Alert
    state: AlertState
    description: str

    @property
    def phase(self) -> Phase:
        return self.state.notifiable_phase

    @property
    def text(self) -> str:
        """One line: name, value, limit, reason and command."""
        verb = "firing" if self.phase is Phase.FIRING else "resolved"
        limit_text = f"above {self.alert.limit:g}" if self.alert.below is None else f"below {self.alert.limit:g}"
        rest = f" {self.alert.why}" if self.alert.why and self.phase is Phase.FIRING else ""
        run = f" Run: {self.alert.run}" if self.alert.run and self.phase is Phase.FIRING else ""
        return (
            f"[{verb}] {self.alert.name} ({self.alert.severity}): {self.description}, alarmed {limit_text}.{rest}{run}"
        )

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "name": self.alert.name,
            "status": "firing" if self.phase is Phase.FIRING else "resolved",
            "severity": self.alert.severity,
            "on": self.alert.on.text,
            "value": to_json_number(self.state.value),
            "limit": self.alert.limit,
            "since": format_time(self.state.since_us),
            "why": self.alert.why,
            "run": self.alert.run,
        }


@dataclass(frozen=True)
class Notification:
    """The changes of one group."""

    group: str
    changes: tuple[AlertChange, ...]

    @property
    def text(self) -> str:
        return "\n".join([f"Headrace, {self.group}:", *(change.text for change in self.changes)])

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body as Slack-compatible receivers expect it, with each change as fields."""
        return {
            "text": self.text.translate(_SLACK),
            "group": self.group,
            "alerts": [change.fields for change in self.changes],
        }


def group_changes(changes: Iterable[AlertChange]) -> list[Notification]:
    """One notification for each group, firing before resolved, in the order of declaration."""
    groups: dict[str, list[AlertChange]] = {}
    for change in changes:
        groups.setdefault(change.alert.group, []).append(change)
    return [
        Notification(group, tuple(sorted(alert_changes, key=lambda change: change.phase is not Phase.FIRING)))
        for group, alert_changes in groups.items()
    ]


def is_notification_due(name: str, state: AlertState, silences: Mapping[str, int], now_us: int) -> bool:
    """Whether the phase differs from the notified one and the alert is not silenced."""
    return state.notified_phase is not state.notifiable_phase and silences.get(name, 0) <= now_us


def format_time(at_us: int) -> str:
    """A time in ISO 8601, as every notification shows it.

    >>> format_time(1_767_225_600_000_000)
    '2026-01-01T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def to_json_number(value: float | None) -> float | str | None:
    """A value that JSON can hold."""
    return value if value is None or abs(value) != float("inf") else str(value)
