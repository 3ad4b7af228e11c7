"""Interval joins: every pair once; an unmatched row is emitted once no match can arrive any more."""

import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.declare.operations.join import Join
from headrace.declare.operations.join_inputs import Side
from headrace.operators.deduplication import DeduplicatingOperator
from headrace.operators.joins.interval_join import IntervalJoinOperator
from headrace.operators.operator import advance_operator
from tests.operators.join_events import event, history, made, run_of
from tests.operators.join_oracle import LEFT_COLUMNS, RIGHT_COLUMNS, Patience, joined

KINDS = ("inner", "left", "right", "full")
BOUNDS = [(0, 5), (5, 0), (3, 4), (0, 0), (-2, 6), (6, -2)]
LATENESS = [0, 1, 7, 20]


def patience(then: str, left: int, right: int, more: int) -> Patience:
    later = more if then == "update" else 0
    return Patience((left, left + later), (right, right + later), then)


def join_of(kind: str, within: tuple[int, int], patience: Patience) -> Join:
    left = Side("orders", LEFT_COLUMNS, kind in ("left", "full"), *patience.left)
    right = Side("payments", RIGHT_COLUMNS, kind in ("right", "full"), *patience.right)
    return Join(left, right, ("key",), patience.then, *within)  # type: ignore[arg-type]


def random_patience(dice: Random, then: str) -> Patience:
    return patience(then, dice.choice(LATENESS), dice.choice(LATENESS), dice.choice([0, 3, 15]))


def require_what_every_pair_says(dice: Random, kind: str, then: str) -> None:
    events, within, waits = history(dice), dice.choice(BOUNDS), random_patience(dice, then)
    found = made(IntervalJoinOperator(join_of(kind, within, waits)), run_of(dice, events))
    assert found == dict.fromkeys(joined(events, kind, within, waits), 1)


@settings(max_examples=100, deadline=None)
@given(st.randoms(), st.sampled_from(KINDS), st.sampled_from(["drop", "side_output", "update"]))
def test_whatever_the_order_the_batches_and_the_clocks_a_join_is_what_every_pair_of_events_says(
    dice: Random, kind: str, then: str
) -> None:
    require_what_every_pair_says(dice, kind, then)


@pytest.mark.shows("stream-stream join", late=("drop", "side_output", "update"))
@pytest.mark.parametrize("then", ["drop", "side_output", "update"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_histories_are_joined_as_every_pair_of_their_events_says(kind: str, then: str) -> None:
    for seed in range(1000):
        require_what_every_pair_says(Random(seed), kind, then)


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_that_comes_again_changes_nothing(kind: str) -> None:
    for seed in range(200):
        dice = Random(seed)
        events, within, waits = history(dice), dice.choice(BOUNDS), random_patience(dice, "update")
        operator = DeduplicatingOperator(IntervalJoinOperator(join_of(kind, within, waits)), (100, 100))
        found = made(operator, run_of(dice, events + dice.choices(events, k=5) if events else []))
        assert found == dict.fromkeys(joined(events, kind, within, waits), 1)


def order(own_id: str = "o1", at: int = 100, late: int = 0, **more: Any) -> Any:
    return event(own_id, 0, at, at + late, **more)


def payment(own_id: str = "p1", at: int = 100, late: int = 0, **more: Any) -> Any:
    return event(own_id, 1, at, at + late, **more)


WAITS = patience("side_output", 10, 20, 0)


def ids(operator: IntervalJoinOperator, kept: Any, events: list[Any], clock_us: int) -> list[tuple[str, int]]:
    return [(row.id, row.known_us) for row in advance_operator(operator, ("a",), kept, events, clock_us)]


def test_a_pair_is_told_at_once_and_an_order_alone_when_no_payment_on_time_can_come_any_more() -> None:
    operator = IntervalJoinOperator(join_of("left", (0, 50), WAITS))
    kept = operator.create_state()
    assert ids(operator, kept, [order(), order("o2"), payment(at=120), payment("p2", at=151)], 125) == [
        ('["o1","p1"]', 120),
        ('["o2","p1"]', 120),
    ]
    kept = operator.create_state()
    assert ids(operator, kept, [order()], 170) == []  # a payment of 150 that is 20 late arrives at 170
    assert ids(operator, kept, [], 171) == [('["o1",null]', 171)]
    assert operator.next_timer_us(kept) is None


def test_rows_are_forgotten_exactly_when_no_partner_can_come() -> None:
    operator = IntervalJoinOperator(join_of("inner", (5, 50), WAITS))
    kept = operator.create_state()
    list(advance_operator(operator, ("a",), kept, [order(), payment("p1", at=300)], 170))
    assert [len(rows) for rows in kept.rows] == [1, 1]
    list(advance_operator(operator, ("a",), kept, [], 171))  # 100 + 50 + 20 + 1
    assert [len(rows) for rows in kept.rows] == [0, 1]
    list(advance_operator(operator, ("a",), kept, [], 315))
    assert operator.next_timer_us(kept) == 316  # 300 + 5 + 10 + 1


def test_an_order_without_a_key_joins_nothing_and_is_told_at_once() -> None:
    operator = IntervalJoinOperator(join_of("left", (0, 50), WAITS))
    nobody = [order(key=None), payment(key=None)]
    made_of_nobody = list(advance_operator(operator, (None,), operator.create_state(), nobody, 0))  # type: ignore[arg-type]
    assert [row.id for row in made_of_nobody] == ['["o1",null]']


def test_a_late_payment_takes_back_that_the_order_was_alone() -> None:
    operator = IntervalJoinOperator(join_of("left", (0, 50), patience("update", 10, 20, 100)))
    kept = operator.create_state()
    assert ids(operator, kept, [order()], 180) == [('["o1",null]', 171)]
    assert ids(operator, kept, [payment(at=130, late=60)], 191) == [
        ('["o1","p1"]', 190),
        ('["o1",null,"retracted"]', 190),
    ]
    assert operator.next_timer_us(kept) == 241  # of the payment: an order of 130 may come until 130 + 110


def test_of_two_late_payments_the_one_that_arrived_first_tells_when_the_row_was_taken_back() -> None:
    operator = IntervalJoinOperator(join_of("left", (0, 50), patience("update", 10, 20, 100)))
    kept = operator.create_state()
    assert ids(operator, kept, [order(), payment(at=130, late=70)], 171) == [
        ('["o1","p1"]', 200),
        ('["o1",null]', 171),
    ]
    assert ids(operator, kept, [payment("p2", at=130, late=60)], 201) == [
        ('["o1","p2"]', 190),
        ('["o1",null,"retracted"]', 190),
    ]


def test_a_busy_key_keeps_its_rows_alone_however_many_there_are() -> None:
    operator, count = IntervalJoinOperator(join_of("left", (0, 2), WAITS)), 100_000
    kept = operator.create_state()
    events = (make(f"{number}", at=number * 10) for number in range(count) for make in (order, payment))
    began = time.process_time()
    assert sum(1 for one in events for _ in operator.process_event(("a",), kept, one)) == count
    assert [len(rows) for rows in kept.rows] == [count, count]
    assert len(kept.timers) == count
    list(operator.on_timer(("a",), kept, count * 10 - 500_000))
    assert all(49_990 < len(rows) < 50_010 for rows in kept.rows)
    assert time.process_time() - began < 60  # looking at every row of the other side would take hours
