"""Every alert of an app at each look: values in, states and notifications out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.declare.alert import Alert
from headrace.watch.phases import Phase, State, beginning, step
from headrace.watch.tell import Change, Notification, grouped, is_due
from headrace.watch.values import Reading, Values

Keep = Callable[[Alert, State, str], None]
NOT_KNOWN = "no data"


class Engine:
    """Steps each alert, keeps what has changed and says what is to be told; each change is handed out once.

    `keep` is told of every state that another start must know.
    """

    def __init__(self, alerts: Sequence[Alert], kept: Mapping[str, State], keep: Keep) -> None:
        self._alerts = {alert.name: alert for alert in alerts}
        self.states = {name: state for name, state in kept.items() if name in self._alerts}
        self._keep = keep
        self._said: dict[str, str] = {}
        self._telling: dict[str, Phase] = {}

    @property
    def firing(self) -> int:
        return sum(state.phase is Phase.FIRING for state in self.states.values())

    def look(self, values: Values, silences: Mapping[str, int], now_us: int) -> list[Notification]:
        """Step every alert to now; gives what is to be told."""
        values.look(now_us)
        for alert in self._alerts.values():
            self._step(alert, values.read(alert.on, now_us), now_us)
        due = [name for name, state in self.states.items() if is_due(name, state, silences, now_us)]
        changes = [self._change(name) for name in due if self._telling.get(name) is not self.states[name].settled]
        self._telling |= {change.alert.name: change.phase for change in changes}
        return grouped(changes)

    def told(self, notifications: Iterable[Notification]) -> None:
        """These have reached somebody, or never will."""
        for change in (change for notification in notifications for change in notification.changes):
            name = change.alert.name
            self._telling.pop(name, None)
            self._become(change.alert, replace(self.states[name], told=change.phase))

    def untold(self, notification: Notification) -> None:
        """There was no room for this one: it is handed out again."""
        for change in notification.changes:
            self._telling.pop(change.alert.name, None)

    def _step(self, alert: Alert, reading: Reading | None, now_us: int) -> None:
        state = self.states.setdefault(alert.name, beginning(now_us))
        self._said[alert.name] = NOT_KNOWN if reading is None else reading.text
        self._become(alert, step(alert, state, None if reading is None else reading.value, now_us))

    def _become(self, alert: Alert, state: State) -> None:
        before = self.states[alert.name]
        self.states[alert.name] = state
        if (before.phase, before.told) != (state.phase, state.told):
            self._keep(alert, state, self._said.get(alert.name, NOT_KNOWN))

    def _change(self, name: str) -> Change:
        return Change(self._alerts[name], self.states[name], self._said.get(name, NOT_KNOWN))
