"""How far queries are behind: beside brute force over every record."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from headrace.log.lag import MOST_TOLD, Behind, Lag, Lags, Waiting
from headrace.log.marks import MOST, Marks
from headrace.log.records import Partition

ZERO, ONE = Partition("payments", 0), Partition("payments", 1)


def test_the_oldest_that_waits_came_no_later_than_the_look_that_first_counted_it() -> None:
    looks = [(10, 0), (20, 5), (30, 15), (40, 15), (40, 0)]
    waiting = Waiting()
    waited = [waiting.add(arrived, pending, float(second)) for second, (arrived, pending) in enumerate(looks)]
    assert waited == [0, 0, 1, 1, 0]
    assert waiting.add(5, 5, 9.0) == 0  # a ledger that begins anew


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_nothing_that_has_been_dealt_with_is_said_to_wait(steps: list[tuple[int, int]]) -> None:
    """Brute force: of each record the second it arrived in, in their order."""
    waiting, arrivals, done = Waiting(), list[int](), 0
    for second, (came, went) in enumerate(steps):
        arrivals += [second] * came
        done = min(len(arrivals), done + went)
        left = arrivals[done:]
        assert waiting.add(len(arrivals), len(left), float(second)) == (second - left[0] if left else 0)


def test_each_query_and_partition_waits_by_itself() -> None:
    lags = Lags()
    for second, (end, gate, tiles) in enumerate([(10, 10, 10), (20, 20, 10), (30, 30, 15), (40, 30, 15)]):
        behind = lags.look({"gate": {ZERO: gate, ONE: 5}, "tiles": {ZERO: tiles}}, {ZERO: end, ONE: 5}, float(second))
    assert behind.lags == (Lag("gate", ZERO, 10, 0), Lag("gate", ONE, 0, 0), Lag("tiles", ZERO, 25, 2))
    assert (behind.seconds_of("gate"), behind.seconds_of("tiles"), behind.seconds_of("lake")) == (0, 2, None)


def test_who_is_gone_is_forgotten_and_begins_anew() -> None:
    lags = Lags()
    lags.look({"gate": {ZERO: 0}}, {ZERO: 10}, 0.0)
    assert lags.look({}, {}, 1.0) == Behind(at_s=1.0)
    assert lags.look({"gate": {ZERO: 0}}, {ZERO: 10}, 9.0).lags == (Lag("gate", ZERO, 10, 0.0),)
    assert lags.look({"gate": {ZERO: 0}}, {}, 10.0).lags == ()  # the broker did not tell its end
    assert lags.look({"gate": {ZERO: 12}}, {ZERO: 10}, 11.0).lags == (Lag("gate", ZERO, 0, 0.0),)


def test_steps_of_minutes_are_not_estimated() -> None:
    lags = Lags()
    for second in range(12):
        behind = lags.look(
            {"gate": {ZERO: 10 * second}, "lake": {ZERO: 10 * second}}, {ZERO: 1000}, float(second), {"lake"}
        )
    assert behind.catch_up_s.keys() == {"gate"}
    assert behind.catch_up_s["gate"] == 89.0
    assert [behind.left_s(now_s)["gate"] for now_s in (11.0, 14.0, 999.0)] == [89.0, 86.0, 0.0]
    assert Behind((), {"gate": inf}).left_s(9.0) == {"gate": inf}


def test_so_many_are_told_and_they_are_those_farthest_behind() -> None:
    lags = tuple(Lag("gate", Partition("payments", n), n, float(n % 100)) for n in range(2 * MOST_TOLD))
    told = Behind(lags).told
    assert len(told) == MOST_TOLD
    assert min(lag.seconds for lag in told) >= 49


@given(st.lists(st.integers(0, 400_000), max_size=60), st.integers(-10, 500_000))
def test_marks_never_say_more_than_has_arrived_and_all_of_it_in_the_end(steps: list[int], until_us: int) -> None:
    arrivals = [sum(steps[: n + 1]) // 10 for n in range(len(steps))]
    marks = Marks()
    for offset, arrival_us in enumerate(arrivals):
        marks.add(arrival_us, offset + 1)
    really = sum(arrival_us <= until_us for arrival_us in arrivals)
    found = marks.reached(until_us)
    assert found <= really
    assert marks.reached(until_us + 50_000) >= found
    assert found >= sum(arrival_us <= until_us - 50_000 for arrival_us in arrivals)
    assert marks.reached(10**9) == len(arrivals)


def test_an_earlier_time_that_comes_later_is_behind_the_others() -> None:
    marks = Marks()
    for offset, arrival_us in enumerate([1_000_000, 5_000_000, 2_000_000]):
        marks.add(arrival_us, offset + 1)
    assert [marks.reached(at_us) for at_us in (1_000_000, 2_000_000, 5_000_000)] == [1, 1, 3]


def test_marks_of_a_long_time_are_few() -> None:
    marks = Marks()
    for offset in range(10 * MOST):
        marks.add(offset * 60_000, offset + 1)
    assert marks.reached(10**12) == 10 * MOST
    assert 0 <= 15_000 - marks.reached(15_000 * 60_000) < 100
