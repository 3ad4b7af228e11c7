"""As-of joins: each left event with the row valid at its time, by what had arrived at the decision."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.declare.operations.join import AsofJoin
from headrace.declare.operations.join_inputs import Side
from headrace.operators.joins.asof_join import AsofJoinOperator
from headrace.operators.operator import OutputEvent, advance_operator
from tests.operators import join_oracle as oracle
from tests.operators.join_events import END_US, event, history, made, run_of
from tests.operators.join_oracle import LEFT_COLUMNS, RIGHT_COLUMNS, Patience
from tests.operators.joins.test_interval_join import patience, random_patience


def asof_of(asked: oracle.Asof, waits: Patience) -> AsofJoinOperator:
    left = Side("orders", LEFT_COLUMNS, asked.kind == "left", *waits.left)
    right = Side("payments", RIGHT_COLUMNS, False, *waits.right)
    deleted = ("paid", None) if asked.deletes else None
    return AsofJoinOperator(AsofJoin(left, right, ("key",), waits.then, asked.tolerance_us, asked.wait_us, deleted))  # type: ignore[arg-type]


def require_what_was_valid(dice: Random, kind: str, then: str) -> None:
    events, waits = history(dice), random_patience(dice, then)
    asked = oracle.Asof(kind, dice.choice([0, 4, 30]), dice.choice([None, 0, 2, 10]), dice.choice([True, False]))
    found = made(asof_of(asked, waits), run_of(dice, events))
    assert found == dict.fromkeys(oracle.valid_at(events, asked, waits), 1)


@settings(max_examples=100, deadline=None)
@given(st.randoms(), st.sampled_from(["inner", "left"]), st.sampled_from(["drop", "side_output", "update"]))
def test_whatever_the_order_the_batches_and_the_clocks_each_row_has_what_was_valid(
    dice: Random, kind: str, then: str
) -> None:
    require_what_was_valid(dice, kind, then)


@pytest.mark.shows("as-of join", late=("drop", "side_output", "update"))
@pytest.mark.parametrize("then", ["drop", "side_output", "update"])
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_in_two_thousand_histories_each_row_has_what_was_valid(kind: str, then: str) -> None:
    for seed in range(2000):
        require_what_was_valid(Random(seed), kind, then)


def trade(own_id: str, at: int, late: int = 0) -> Any:
    return event(own_id, 0, at, at + late)


def quote(own_id: str, at: int, late: int = 0, price: float | None = 1.0) -> Any:
    return event(own_id, 1, at, at + late, paid=price)


WAITS = patience("side_output", 10, 20, 0)
PATIENT = oracle.Asof("left", 100, None, False)
HASTY = oracle.Asof("left", 100, 5, False)


def told(operator: AsofJoinOperator, kept: Any, events: list[Any], clock_us: int) -> list[tuple[str, str, int]]:
    return [(row.output, row.id, row.known_us) for row in advance_operator(operator, ("a",), kept, events, clock_us)]


def test_a_trade_waits_until_no_quote_on_time_can_come_any_more() -> None:
    operator = asof_of(PATIENT, WAITS)
    kept = operator.create_state()
    assert told(operator, kept, [quote("q1", 40), trade("t1", 100), quote("q2", 101)], 120) == []
    assert told(operator, kept, [quote("q3", 100, late=20)], 121) == [("out", '["t1","q3"]', 121)]


def test_a_trade_that_may_not_wait_is_joined_with_what_had_arrived_and_the_better_quote_is_told() -> None:
    operator = asof_of(HASTY, WAITS)
    kept = operator.create_state()
    events = [quote("q1", 40), trade("t1", 100), quote("q2", 90, late=15)]  # 105: too late to be known at 105
    assert told(operator, kept, events, 105) == [("out", '["t1","q1"]', 105)]
    assert told(operator, kept, [], 106) == [("late", '["t1","q2"]', 105)]


def test_with_update_the_better_quote_takes_the_row_back_and_makes_another() -> None:
    operator = asof_of(HASTY, patience("update", 10, 20, 0))
    kept = operator.create_state()
    assert told(operator, kept, [quote("q1", 40), trade("t1", 100)], 105) == [("out", '["t1","q1"]', 105)]
    assert told(operator, kept, [quote("q2", 90, late=15)], 106) == [
        ("out", '["t1","q1","retracted"]', 105),
        ("out", '["t1","q2"]', 105),
    ]


def values(made: list[OutputEvent]) -> list[Any]:
    return [row.values["right_paid"] for row in made]


def test_what_was_valid_ends_when_it_is_too_old_or_when_a_row_says_so() -> None:
    operator = asof_of(oracle.Asof("left", 100, None, True), WAITS)
    events = [quote("q1", 40), trade("t1", 140), trade("t2", 141), quote("q2", 200), quote("q3", 210, price=None)]
    made = list(
        advance_operator(
            operator, ("a",), operator.create_state(), [*events, trade("t3", 209), trade("t4", 210)], END_US
        )
    )
    assert values(made) == [1.0, None, 1.0, None]


def test_of_two_quotes_at_one_time_the_one_that_came_last_is_valid() -> None:
    operator = asof_of(PATIENT, WAITS)
    events = [quote("q9", 100, price=1.0), quote("q1", 100, late=1, price=2.0), trade("t1", 100)]
    assert values(list(advance_operator(operator, ("a",), operator.create_state(), events, END_US))) == [2.0]


def test_of_many_quotes_those_are_kept_that_a_trade_may_still_ask_for_and_the_last_one_of_all() -> None:
    operator = asof_of(oracle.Asof("left", 10_000, None, False), WAITS)
    kept = operator.create_state()
    list(advance_operator(operator, ("a",), kept, [quote(f"q{at}", at) for at in range(0, 1000, 10)], 900))
    # A trade on time at 900 happened at 890 or later, one that waits at 879 or later.
    assert [row.time_us for row in kept.versions][:2] == [870, 880]
    list(advance_operator(operator, ("a",), kept, [], 10_000))
    assert [row.time_us for row in kept.versions] == [990]
    assert operator.next_timer_us(kept) == 990 + 10_000 + 21 + 1
