"""The pace of a replay, measured with a clock that advances only while a caller waits."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.producer.replay import InvalidSpeedError, RecordedEvent, ReplayClock, pace_events, parse_speed

SECOND_US = 1_000_000


class Stopped:
    """A clock that stands still unless it is waited for."""

    def __init__(self, now: float = 100.0) -> None:
        self.now_s = now
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds

    @property
    def clock(self) -> ReplayClock:
        return ReplayClock(lambda: self.now_s, self.wait)


def recorded(*due_s: float | None) -> list[RecordedEvent]:
    return [
        RecordedEvent(None if due is None else int(due * SECOND_US), b"k", b"%d" % n) for n, due in enumerate(due_s)
    ]


def sent_at(
    events: list[RecordedEvent],
    speed: float | None,
    from_s: float | None = None,
    hold: Callable[[int], float] = lambda _: 0.0,
) -> Iterator[float]:
    """Seconds after the start at which each event is emitted; `hold` is how long the caller takes for each."""
    time = Stopped()
    started = time.now_s
    for number, _ in enumerate(
        pace_events(events, speed, time.clock, None if from_s is None else int(from_s * SECOND_US))
    ):
        yield time.now_s - started
        time.now_s += hold(number)


def test_one_recorded_second_takes_its_share_of_a_second() -> None:
    assert list(sent_at(recorded(50, 60, 60, 110), 10)) == pytest.approx([0, 1, 1, 6])
    assert list(sent_at(recorded(50, 60), 0.5)) == pytest.approx([0, 20])
    assert list(sent_at(recorded(0, 365 * 86_400), 10_000)) == pytest.approx([0, 3153.6])


def test_recorded_time_may_begin_before_the_first_event() -> None:
    assert list(sent_at(recorded(60, 70), 10, from_s=50)) == pytest.approx([1, 2])


def test_what_was_held_up_is_caught_up_with_and_no_later_event_is_delayed() -> None:
    held_up = {1: 2.5}
    times = sent_at(recorded(0, 10, 20, 30, 40, 50), 10, hold=lambda number: held_up.get(number, 0))
    assert list(times) == pytest.approx([0, 1, 3.5, 3.5, 4, 5])


def test_as_quick_as_it_goes_never_waits() -> None:
    time = Stopped()
    events = recorded(0, 10**9, None)
    assert list(pace_events(events, None, time.clock)) == events
    assert time.waits == []


def test_an_event_without_a_time_is_due_at_once() -> None:
    assert list(sent_at(recorded(None, 10, 20, None), 10)) == pytest.approx([0, 0, 1, 1])


@given(
    st.lists(st.integers(-(2**53), 2**53)),
    st.floats(0.001, 1e9),
    st.none() | st.integers(-(2**53), 2**53),
)
def test_no_event_is_early_late_or_lost(due_us: list[int], speed: float, from_us: int | None) -> None:
    in_order = sorted(due_us)
    start_us = min(due_us, default=0) if from_us is None else from_us
    time = Stopped(0.0)
    seen = [
        (event.due_us, time.now_s)
        for event in pace_events([RecordedEvent(due, None, b"") for due in in_order], speed, time.clock, from_us)
    ]
    assert [due for due, _ in seen] == in_order
    assert [now_s for _, now_s in seen] == pytest.approx([max(0, due - start_us) / 1e6 / speed for due in in_order])


@pytest.mark.parametrize(
    "text", ["", "x", "10000", "0x", "0.0x", "-1x", "1e3x", "infx", "nanx", "fast", "10 x", "1٢x", "MAX"]
)
def test_what_is_no_speed_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidSpeedError, match="10000x") as refused:
        parse_speed(text)
    assert repr(text) in str(refused.value)
