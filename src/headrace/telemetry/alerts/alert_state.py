"""The phases of an alert as pure functions: one value and the time in, the next state out.

        breached             for_ has passed
ok ─────────────▶ pending ─────────────────▶ firing ──▶ ok
 ▲                   │ not breached                 clear; of one that flaps, clear for HOLD
 └───────────────────┘
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.declare.alerts.alert import Alert
from headrace.declare.durations import UNITS_US

FLAP_COUNT, FLAP_WINDOW_US, HOLD_US = 3, UNITS_US["h"], 15 * UNITS_US["m"]


class Phase(StrEnum):
    """The phase of an alert."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True)
class AlertState:
    """The phase of an alert and since when, its last value and when that came, whether it flaps, and the phase
    that was last notified.
    """

    since_us: int
    last_value_us: int
    phase: Phase = Phase.OK
    value: float | None = None
    clear_since_us: int | None = None
    fired_us: tuple[int, ...] = ()
    notified_phase: Phase = Phase.OK

    @property
    def notifiable_phase(self) -> Phase:
        """The phase to notify: pending is not notified."""
        return Phase.FIRING if self.phase is Phase.FIRING else Phase.OK

    def is_flapping(self, now_us: int) -> bool:
        """Whether it has fired so often lately that it must stay clear for HOLD before it is resolved."""
        return sum(now_us - fired_us < FLAP_WINDOW_US for fired_us in self.fired_us) >= FLAP_COUNT


def initial_state(now_us: int) -> AlertState:
    """The state of an alert without a saved one."""
    return AlertState(since_us=now_us, last_value_us=now_us)


def next_state(alert: Alert, state: AlertState, value: float | None, now_us: int) -> AlertState:
    """The state after a value, or after none."""
    if value is None or math.isnan(value):
        return _on_missing_value(alert, state, now_us)
    updated = replace(state, value=value, last_value_us=now_us)
    if alert.is_breached(value):
        return _on_breach(alert, updated, now_us)
    if state.phase is Phase.FIRING:
        return _on_clear(updated, now_us) if alert.is_clear(value) else replace(updated, clear_since_us=None)
    return _enter_phase(updated, Phase.OK, now_us)


def _on_missing_value(alert: Alert, state: AlertState, now_us: int) -> AlertState:
    is_silent = alert.no_data_us is not None and now_us - state.last_value_us >= alert.no_data_us
    if not is_silent or state.phase is Phase.FIRING:
        return state
    return _fire(replace(state, value=None), now_us)


def _on_breach(alert: Alert, state: AlertState, now_us: int) -> AlertState:
    if state.phase is Phase.FIRING:
        return replace(state, clear_since_us=None)
    pending = _enter_phase(state, Phase.PENDING, now_us)
    return _fire(pending, now_us) if now_us - pending.since_us >= alert.for_us else pending


def _on_clear(state: AlertState, now_us: int) -> AlertState:
    since_us = now_us if state.clear_since_us is None else state.clear_since_us
    hold_us = HOLD_US if state.is_flapping(now_us) else 0
    if now_us - since_us < hold_us:
        return replace(state, clear_since_us=since_us)
    return _enter_phase(state, Phase.OK, now_us)


def _fire(state: AlertState, now_us: int) -> AlertState:
    fired_us = (*state.fired_us, now_us)[-FLAP_COUNT:]
    return _enter_phase(replace(state, fired_us=fired_us), Phase.FIRING, now_us)


def _enter_phase(state: AlertState, phase: Phase, now_us: int) -> AlertState:
    if state.phase is phase:
        return state
    return replace(state, phase=phase, since_us=now_us, clear_since_us=None)
