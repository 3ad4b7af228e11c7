"""The phases of an alert follow its declaration, over any series of values."""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.telemetry.alerts.alert_state import (
    FLAP_COUNT,
    FLAP_WINDOW_US,
    HOLD_US,
    AlertState,
    Phase,
    initial_state,
    next_state,
)

MINUTE = 60_000_000
LAG = hr.metric("headrace_lag", stream="payments")
Heard = tuple[int, float | None]


def alert(**settings: object) -> hr.Alert:
    return hr.Alert("lag", on=LAG, **({"above": 10} | settings))  # type: ignore[arg-type]


def replay(rule: hr.Alert, series: list[Heard]) -> list[AlertState]:
    states, state = [], initial_state(0)
    for at_us, value in series:
        state = next_state(rule, state, value, at_us)
        states.append(state)
    return states


def phases(rule: hr.Alert, values: list[float | None]) -> str:
    """The first letter of each phase, a value a minute."""
    return "".join(state.phase[0] for state in replay(rule, [(n * MINUTE, v) for n, v in enumerate(values)]))


@dataclass
class Brute:
    """The same rules, evaluated over the whole past at each moment."""

    rule: hr.Alert
    series: list[Heard]
    fired: list[int]
    resolved: list[int]

    def phase(self, n: int) -> Phase:
        now_us, value = self.series[n]
        if self.firing:
            if self._since(n, self.rule.is_clear, self.fired[-1]) is not None and self._is_calm(n):
                self.resolved.append(now_us)
            return Phase.FIRING if self.firing else Phase.OK
        if value is None:
            is_silent = self.rule.no_data_us is not None and now_us - self._last_heard(n) >= self.rule.no_data_us
            if is_silent:
                self.fired.append(now_us)
                return Phase.FIRING
        since_us = self._since(n, self.rule.is_breached, -1)
        if since_us is None:
            return Phase.OK
        if value is not None and now_us - since_us >= self.rule.for_us:
            self.fired.append(now_us)
            return Phase.FIRING
        return Phase.PENDING

    @property
    def firing(self) -> bool:
        return len(self.fired) > len(self.resolved)

    def _is_calm(self, n: int) -> bool:
        now_us, value = self.series[n]
        since_us = self._since(n, self.rule.is_clear, self.fired[-1])
        recent = [at_us for at_us in self.fired if now_us - at_us < FLAP_WINDOW_US]
        assert since_us is not None
        return value is not None and now_us - since_us >= (HOLD_US if len(recent) >= FLAP_COUNT else 0)

    def _since(self, n: int, holds: object, after_us: int) -> int | None:
        """When the last unbroken run of known values that hold began, if the last known one does."""
        since_us = None
        for at_us, value in reversed(self.series[: n + 1]):
            if at_us <= after_us or (value is not None and not holds(value)):  # type: ignore[operator]
                break
            since_us = at_us if value is not None else since_us
        return since_us

    def _last_heard(self, n: int) -> int:
        return max((at_us for at_us, value in self.series[: n + 1] if value is not None), default=0)


values = st.one_of(st.none(), st.sampled_from([0.0, 4.0, 5.0, 5.5, 7.0, 10.0, 10.5, 20.0]))
gaps = st.sampled_from([1, MINUTE // 4, MINUTE, 5 * MINUTE, 20 * MINUTE])
durations = st.sampled_from([None, "15s", "1m", "3m"])


@given(
    st.lists(st.tuples(gaps, values), max_size=80),
    durations,
    st.sampled_from(["keep", "1m", "10m"]),
    st.sampled_from([{"above": 10, "clear": 5}, {"above": 10}, {"below": 5, "clear": 10}, {"below": 5}]),
)
def test_any_series_goes_through_the_phases_that_the_rules_say(
    gapped: list[Heard], for_: str | None, no_data: str, limits: dict[str, float]
) -> None:
    rule = hr.Alert("lag", on=LAG, for_=for_, no_data=no_data, **limits)
    at_us, series = 0, []
    for gap_us, value in gapped:
        at_us += gap_us or 0
        series.append((at_us, value))
    brute = Brute(rule, series, [], [])
    assert [state.phase for state in replay(rule, series)] == [brute.phase(n) for n in range(len(series))]


@given(
    st.lists(st.sampled_from([0.0, 20.0, None]), min_size=200, max_size=400), st.sampled_from([MINUTE // 12, MINUTE])
)
def test_an_alert_fires_only_so_often_an_hour_whatever_its_value_does(heard: list[float | None], every_us: int) -> None:
    states = replay(alert(), [(n * every_us, value) for n, value in enumerate(heard)])
    fired = [state.since_us for before, state in pairwise([initial_state(0), *states]) if fires(before, state)]
    for first_us in fired:
        assert sum(first_us <= at_us < first_us + FLAP_WINDOW_US for at_us in fired) <= FLAP_COUNT + 4


def fires(before: AlertState, state: AlertState) -> bool:
    return before.phase is not Phase.FIRING and state.phase is Phase.FIRING


def test_it_fires_after_so_long_and_resolves_beyond_its_clear() -> None:
    assert phases(alert(for_="2m", clear=5), [0, 11, 12, 13, 7, 6, 5, 0]) == "oppffffo"[:6] + "oo"


def test_one_good_value_begins_the_wait_anew() -> None:
    assert phases(alert(for_="2m"), [11, 11, 9, 11, 11, 11]) == "ppoppf"


def test_without_data_it_waits_or_fires_as_declared() -> None:
    gone: list[float | None] = [0, None, None, None, None]
    assert phases(alert(), gone) == "ooooo"
    assert phases(alert(no_data="3m"), [*gone, 0]) == "ooofFo".lower()
    assert phases(alert(), [11, None, None]) == "fff"
    assert phases(alert(for_="2m"), [11, None, None, None, 11]) == "ppppf"


@pytest.mark.parametrize("hostile", [math.nan, math.inf, -math.inf])
def test_nan_is_no_data_and_infinity_is_a_value(hostile: float) -> None:
    expected = Phase.FIRING if hostile == math.inf else Phase.OK
    assert replay(alert(), [(0, hostile)])[0].phase is expected


def test_what_flaps_stays_firing_until_it_has_been_calm() -> None:
    told = phases(alert(), [20, 0] * 10 + [0] * 20)
    assert told.startswith("fofofffff")
    assert told.index("o", 5) == 19 + 15
