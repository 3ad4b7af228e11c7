"""Evaluates every alert of an app: values in, states and notifications out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.declare.alerts.alert import Alert
from headrace.telemetry.alerts.alert_state import AlertState, Phase, initial_state, next_state
from headrace.telemetry.alerts.notifications import AlertChange, Notification, group_changes, is_notification_due
from headrace.telemetry.values.value_source import ValueReading, ValueSource

SaveState = Callable[[Alert, AlertState, str], None]
NO_DATA = "no data"


class AlertEngine:
    """Steps each alert, saves the states that changed and returns each change to notify once.

    `save_state` is called with every state that the next start needs.
    """

    def __init__(self, alerts: Sequence[Alert], saved_states: Mapping[str, AlertState], save_state: SaveState) -> None:
        self._alerts = {alert.name: alert for alert in alerts}
        self.states = {name: state for name, state in saved_states.items() if name in self._alerts}
        self._save_state = save_state
        self._descriptions: dict[str, str] = {}
        self._phases_in_delivery: dict[str, Phase] = {}

    @property
    def firing_count(self) -> int:
        return sum(state.phase is Phase.FIRING for state in self.states.values())

    def evaluate(self, source: ValueSource, silences: Mapping[str, int], now_us: int) -> list[Notification]:
        """Step every alert to now and return the notifications that are due."""
        source.refresh(now_us)
        for alert in self._alerts.values():
            self._evaluate_alert(alert, source.read(alert.on, now_us), now_us)
        due_names = [name for name, state in self.states.items() if is_notification_due(name, state, silences, now_us)]
        changes = [
            self._to_change(name)
            for name in due_names
            if self._phases_in_delivery.get(name) is not self.states[name].notifiable_phase
        ]
        self._phases_in_delivery |= {change.alert.name: change.phase for change in changes}
        return group_changes(changes)

    def mark_delivered(self, notifications: Iterable[Notification]) -> None:
        """Record that these were delivered, or given up."""
        for change in (change for notification in notifications for change in notification.changes):
            name = change.alert.name
            self._phases_in_delivery.pop(name, None)
            self._set_state(change.alert, replace(self.states[name], notified_phase=change.phase))

    def requeue(self, notification: Notification) -> None:
        """Return a notification for which the queue had no room: the next evaluation returns it again."""
        for change in notification.changes:
            self._phases_in_delivery.pop(change.alert.name, None)

    def _evaluate_alert(self, alert: Alert, reading: ValueReading | None, now_us: int) -> None:
        state = self.states.setdefault(alert.name, initial_state(now_us))
        self._descriptions[alert.name] = NO_DATA if reading is None else reading.text
        self._set_state(alert, next_state(alert, state, None if reading is None else reading.value, now_us))

    def _set_state(self, alert: Alert, state: AlertState) -> None:
        previous = self.states[alert.name]
        self.states[alert.name] = state
        if (previous.phase, previous.notified_phase) != (state.phase, state.notified_phase):
            self._save_state(alert, state, self._descriptions.get(alert.name, NO_DATA))

    def _to_change(self, name: str) -> AlertChange:
        return AlertChange(self._alerts[name], self.states[name], self._descriptions.get(name, NO_DATA))
