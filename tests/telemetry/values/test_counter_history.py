"""Increases of counters within windows, and the burn rate of an objective."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.telemetry.values.counter_history import CounterHistory, ResettableCounter, worst_burn_rate

MINUTE = 60_000_000
DEAD = hr.metric("headrace_events_total", stream="payments", fate="dead")
ARRIVED = hr.metric("headrace_events_total", stream="payments", fate="in")
objective = hr.Objective(DEAD, ARRIVED, allowed=0.01)
HOUR = 60


def burn_of(minutes: list[tuple[int, int]], rule: hr.Objective = objective) -> float | None:
    """The burn after so many bad of so many, a minute each."""
    history, bad, total = CounterHistory(5 * MINUTE, 72 * HOUR * MINUTE), 0, 0
    history.add(0, 0, 0)
    for n, (more_bad, more) in enumerate(minutes, 1):
        bad, total = bad + more_bad, total + more
        history.add(bad, total, n * MINUTE)
    found = worst_burn_rate(rule, history, len(minutes) * MINUTE)
    return None if found is None else found[0]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=200))
def test_growth_in_a_window_is_that_of_the_samples_in_it(steps: list[tuple[int, int, int]]) -> None:
    history, samples, at_us, bad, total = CounterHistory(12, 400), [], 0, 0, 0
    for gap_us, more_bad, more in steps:
        at_us, bad, total = at_us + gap_us, bad + more_bad, total + more
        history.add(bad, total, at_us)
        samples.append((at_us, bad, total))
    for window_us in (12, 100, 400):
        before = [sample for sample in samples if sample[0] <= at_us - window_us]
        _, bad_then, total_then = before[-1] if before else samples[0]
        assert history.increase_within(window_us, at_us) == (bad - bad_then, total - total_then)
    assert len(history) <= 2 * 400 + 2


def test_a_count_that_begins_anew_is_not_taken_for_growth() -> None:
    climb = ResettableCounter()
    assert [climb.observe(value) for value in (1_000_000, 1_000_001, 5, None, 6)] == [0, 1, 1, 1, 2]


def test_a_sudden_loss_is_alarmed_within_minutes_and_over_soon_after_its_end() -> None:
    calm = [(0, 100)] * 2 * HOUR
    assert burn_of(calm) == 0
    assert (burn_of([*calm, *[(100, 100)] * 5]) or 0) < 1
    lost = [*calm, *[(100, 100)] * 12]
    assert (burn_of(lost) or 0) > 1
    quick = hr.Objective(DEAD, ARRIVED, allowed=0.01, windows=[("1h", "5m", 14.4)])
    assert (burn_of(lost, quick) or 0) > 1
    assert burn_of([*lost, *[(0, 100)] * 6], quick) == 0
    assert (burn_of([*lost, *[(0, 100)] * 31]) or 0) < 0.9  # the next pair still remembers half an hour


def test_a_slow_loss_is_alarmed_in_the_end() -> None:
    assert (burn_of([(0, 100), *[(2, 100)] * 7 * HOUR]) or 0) > 1  # twice what is allowed, for hours
    assert (burn_of([(1, 200)] * 24 * HOUR) or 0) < 1  # half of what is allowed, for a day


def test_few_say_nothing() -> None:
    assert burn_of([(1, 1)] * 19) is None
    assert burn_of([(1, 1)] * 20) == pytest.approx(100 / 14.4)


def test_a_time_without_events_is_no_loss() -> None:
    assert burn_of([*[(100, 100)] * 10, *[(0, 0)] * 10 * HOUR]) == 0
