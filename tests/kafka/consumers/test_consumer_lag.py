"""Consumer lag of queries, compared with brute force over every record."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.consumers.consumer_lag import (
    MAX_REPORTED_LAGS,
    LagSnapshot,
    LagTracker,
    OldestWaitTracker,
    PartitionLag,
)
from headrace.kafka.consumers.time_to_offset import MAX_ENTRIES, TimeToOffsetIndex
from headrace.kafka.record import Partition

ZERO, ONE = Partition("payments", 0), Partition("payments", 1)


def test_the_oldest_that_waits_came_no_later_than_the_look_that_first_counted_it() -> None:
    looks = [(10, 0), (20, 5), (30, 15), (40, 15), (40, 0)]
    waiting = OldestWaitTracker()
    waited = [waiting.add_sample(arrived, pending, float(second)) for second, (arrived, pending) in enumerate(looks)]
    assert waited == [0, 0, 1, 1, 0]
    assert waiting.add_sample(5, 5, 9.0) == 0  # a ledger that starts again from zero


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_nothing_that_has_been_dealt_with_is_said_to_wait(steps: list[tuple[int, int]]) -> None:
    """Brute force: of each record the second it arrived in, in their order."""
    waiting, arrivals, done = OldestWaitTracker(), list[int](), 0
    for second, (came, went) in enumerate(steps):
        arrivals += [second] * came
        done = min(len(arrivals), done + went)
        left = arrivals[done:]
        assert waiting.add_sample(len(arrivals), len(left), float(second)) == (second - left[0] if left else 0)


def test_each_query_and_partition_waits_by_itself() -> None:
    lags = LagTracker()
    for second, (end, gate, tiles) in enumerate([(10, 10, 10), (20, 20, 10), (30, 30, 15), (40, 30, 15)]):
        behind = lags.take_snapshot(
            {"gate": {ZERO: gate, ONE: 5}, "tiles": {ZERO: tiles}}, {ZERO: end, ONE: 5}, float(second)
        )
    assert behind.lags == (
        PartitionLag("gate", ZERO, 10, 0),
        PartitionLag("gate", ONE, 0, 0),
        PartitionLag("tiles", ZERO, 25, 2),
    )
    assert (behind.longest_wait_s("gate"), behind.longest_wait_s("tiles"), behind.longest_wait_s("lake")) == (
        0,
        2,
        None,
    )


def test_who_is_gone_is_forgotten_and_begins_anew() -> None:
    lags = LagTracker()
    lags.take_snapshot({"gate": {ZERO: 0}}, {ZERO: 10}, 0.0)
    assert lags.take_snapshot({}, {}, 1.0) == LagSnapshot(at_s=1.0)
    assert lags.take_snapshot({"gate": {ZERO: 0}}, {ZERO: 10}, 9.0).lags == (PartitionLag("gate", ZERO, 10, 0.0),)
    assert lags.take_snapshot({"gate": {ZERO: 0}}, {}, 10.0).lags == ()  # the broker did not tell its end
    assert lags.take_snapshot({"gate": {ZERO: 12}}, {ZERO: 10}, 11.0).lags == (PartitionLag("gate", ZERO, 0, 0.0),)


def test_steps_of_minutes_are_not_estimated() -> None:
    lags = LagTracker()
    for second in range(12):
        behind = lags.take_snapshot(
            {"gate": {ZERO: 10 * second}, "lake": {ZERO: 10 * second}}, {ZERO: 1000}, float(second), {"lake"}
        )
    assert behind.catch_up_s.keys() == {"gate"}
    assert behind.catch_up_s["gate"] == 89.0
    assert [behind.remaining_catch_up_s(now_s)["gate"] for now_s in (11.0, 14.0, 999.0)] == [89.0, 86.0, 0.0]
    assert LagSnapshot((), {"gate": inf}).remaining_catch_up_s(9.0) == {"gate": inf}


def test_so_many_are_told_and_they_are_those_farthest_behind() -> None:
    lags = tuple(
        PartitionLag("gate", Partition("payments", n), n, float(n % 100)) for n in range(2 * MAX_REPORTED_LAGS)
    )
    told = LagSnapshot(lags).reported_lags
    assert len(told) == MAX_REPORTED_LAGS
    assert min(lag.seconds for lag in told) >= 49


@given(st.lists(st.integers(0, 400_000), max_size=60), st.integers(-10, 500_000))
def test_marks_never_say_more_than_has_arrived_and_all_of_it_in_the_end(steps: list[int], until_us: int) -> None:
    arrivals = [sum(steps[: n + 1]) // 10 for n in range(len(steps))]
    marks = TimeToOffsetIndex()
    for offset, arrival_us in enumerate(arrivals):
        marks.add(arrival_us, offset + 1)
    really = sum(arrival_us <= until_us for arrival_us in arrivals)
    found = marks.offset_at(until_us)
    assert found <= really
    assert marks.offset_at(until_us + 50_000) >= found
    assert found >= sum(arrival_us <= until_us - 50_000 for arrival_us in arrivals)
    assert marks.offset_at(10**9) == len(arrivals)


def test_an_earlier_time_that_comes_later_is_behind_the_others() -> None:
    marks = TimeToOffsetIndex()
    for offset, arrival_us in enumerate([1_000_000, 5_000_000, 2_000_000]):
        marks.add(arrival_us, offset + 1)
    assert [marks.offset_at(at_us) for at_us in (1_000_000, 2_000_000, 5_000_000)] == [1, 1, 3]


def test_marks_of_a_long_time_are_few() -> None:
    marks = TimeToOffsetIndex()
    for offset in range(10 * MAX_ENTRIES):
        marks.add(offset * 60_000, offset + 1)
    assert marks.offset_at(10**12) == 10 * MAX_ENTRIES
    assert 0 <= 15_000 - marks.offset_at(15_000 * 60_000) < 100
