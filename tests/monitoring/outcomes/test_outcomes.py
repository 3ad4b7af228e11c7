"""Outcomes of predictions and labels equal brute force, in any order and at any time of arrival."""

import math

import pytest
from hypothesis import given

from headrace.declare.models.label_policy import LabelPolicy
from headrace.monitoring.outcomes.case_codec import decode_case, encode_case
from headrace.monitoring.outcomes.outcomes import (
    MAX_LABELS,
    LabelEvent,
    OutcomeCase,
    PredictionEvent,
    advance_case,
)
from tests.monitoring.histories import MINUTE, SECOND, START, History, Joined, brute_force, histories

TERMS = LabelPolicy(within_us=30 * MINUTE, late_us=MINUTE, default=0.0)


def scored(at_us: int = 0, **changes: object) -> PredictionEvent:
    said = PredictionEvent("v1", "champion", 0.9, "block", "{}", START + at_us, START + at_us + SECOND, 0, 7)
    return said._replace(**changes)


def label(at_us: int, value: float = 1.0, offset: int = 0, late_us: int = 0) -> LabelEvent:
    return LabelEvent(START + at_us, START + at_us + late_us, 0, offset, value)


def states(
    terms: LabelPolicy, *steps: tuple[list[PredictionEvent | LabelEvent], int]
) -> list[list[tuple[object, ...]]]:
    """What changes at each step: from which state and label to which."""
    case, found = OutcomeCase(), []
    for news, clock_us in steps:
        left, changes = advance_case(case, news, START + clock_us, terms)
        case = left or OutcomeCase()
        said = ((one.state_before, one.label_before, one.state_after, one.label_after) for one in changes)
        found.append(sorted(said, key=str))
    return found


@given(histories())
def test_the_changes_add_up_to_brute_force_at_every_moment(history: History) -> None:
    joined, seen = Joined(history.terms), []
    for records, clock_us in zip(history.batches, history.clocks, strict=True):
        joined.batch(records, clock_us)
        seen += records
        assert joined.standing() == brute_force(seen, history.terms, clock_us)
    assert not joined.cases, "once the clock has passed everything, nothing is remembered"


@given(histories())
def test_a_case_is_the_same_after_it_was_packed(history: History) -> None:
    joined = Joined(history.terms)
    for records, clock_us in zip(history.batches, history.clocks, strict=True):
        joined.batch(records, clock_us)
        for case in joined.cases.values():
            assert str(decode_case(encode_case(case))) == str(case), "as text: no NaN equals itself"


@given(histories())
def test_order_and_batches_change_nothing_in_the_end(history: History) -> None:
    end_us = history.clocks[-1]
    in_order, at_once = Joined(history.terms), Joined(history.terms)
    for told in sorted(history.records, key=lambda one: one[1].arrival_us):
        in_order.batch((told,), 0)
    at_once.batch(history.records, end_us)
    in_order.batch((), end_us)
    assert in_order.standing() == at_once.standing() == brute_force(list(history.records), history.terms, end_us)


@given(histories())
def test_matched_pending_defaulted_expired_and_orphan_are_all_there_is(history: History) -> None:
    joined, predictions, labels = Joined(history.terms), set(), {}
    for records, clock_us in zip(history.batches, history.clocks, strict=True):
        joined.batch(records, clock_us)
        for event, record in records:
            if isinstance(record, PredictionEvent):
                predictions.add((event, record.version, record.role))
            elif not math.isnan(record.value):
                labels[record.partition, record.offset] = event
        counted = joined.standing()
        assert sum(n for of, n in counted.items() if of[1]) == len(predictions)
        assert sum(n for of, n in counted.items() if not of[1]) <= len(labels)


def test_a_label_after_its_prediction_matches_it_and_says_how_long_it_took() -> None:
    _, (change,) = advance_case(OutcomeCase(), [scored()], START, TERMS)
    assert (change.state_before, change.state_after, change.minute_us) == (None, "pending", START)
    case, _ = advance_case(OutcomeCase(), [scored()], START, TERMS)
    assert case is not None
    _, (change,) = advance_case(case, [label(5 * MINUTE, late_us=SECOND)], START, TERMS)
    assert (change.state_before, change.state_after, change.label_after) == ("pending", "matched", 1.0)
    assert change.label_delay_us == 5 * MINUTE + SECOND


def test_a_label_before_its_prediction_is_an_orphan_until_then() -> None:
    first, second = states(TERMS, ([label(-MINUTE)], 0), ([scored()], 0))
    assert first == [(None, None, "orphan", 1.0)]
    assert second == [("orphan", 1.0, None, None), (None, None, "matched", 1.0)]


@pytest.mark.parametrize(("keep", "ends"), [("last", 0.0), ("first", 0.0), ("any", 1.0)])
def test_of_contradicting_labels_the_policy_keeps_one(keep: str, ends: float) -> None:
    terms = LabelPolicy(30 * MINUTE, MINUTE, keep, 0.0)
    labels = [label(MINUTE, 0.0, 1), label(2 * MINUTE, 1.0, 2), label(3 * MINUTE, 0.0, 3)]
    _, (change,) = advance_case(OutcomeCase(), [scored(), *labels], START, terms)
    assert change.label_after == ends


def test_a_correction_takes_back_what_was_said() -> None:
    *_, corrected = states(TERMS, ([scored()], 0), ([label(MINUTE, 1.0)], 0), ([label(2 * MINUTE, 0.0, 1)], 0))
    assert corrected == [("matched", 1.0, "matched", 0.0)]


def test_the_same_label_again_changes_nothing() -> None:
    *_, again, resent = states(
        TERMS, ([scored()], 0), ([label(MINUTE)], 0), ([label(MINUTE)], 0), ([label(2 * MINUTE, offset=1)], 0)
    )
    assert again == resent == []


def test_a_label_after_within_is_too_late_and_leaves_the_prediction_alone() -> None:
    _, late = states(TERMS, ([scored()], 0), ([label(30 * MINUTE + 1)], 0))
    assert late == [(None, None, "too_late", 1.0)]
    _, at_the_edge = states(TERMS, ([scored()], 0), ([label(30 * MINUTE)], 0))
    assert at_the_edge == [("pending", None, "matched", 1.0)]


@pytest.mark.parametrize(("default", "state"), [(0.0, "defaulted"), (None, "expired")])
def test_without_a_label_it_is_closed_once_none_can_come(default: float | None, state: str) -> None:
    terms = LabelPolicy(30 * MINUTE, MINUTE, "last", default)
    _, open_, closed = states(terms, ([scored()], 0), ([], 31 * MINUTE), ([], 31 * MINUTE + 1))
    assert open_ == []
    assert closed == [("pending", None, state, default)]


def test_a_label_for_tomorrow_matches_nothing_of_today() -> None:
    tomorrow = LabelEvent(START + 86_400 * SECOND, START, 0, 1, 1.0)
    *_, said = states(TERMS, ([scored()], 0), ([tomorrow], 0))
    assert said == [(None, None, "too_late", 1.0)]


def test_a_score_that_is_no_number_is_counted_all_the_same() -> None:
    case, (change,) = advance_case(OutcomeCase(), [scored(score=math.nan)], START, TERMS)
    assert case is not None
    assert math.isnan(change.score)
    _, (change,) = advance_case(case, [label(MINUTE)], START, TERMS)
    assert (change.state_before, change.state_after) == ("pending", "matched")


def test_champion_and_challenger_are_two_predictions_of_one_event() -> None:
    both = [scored(), scored(version="v2", role="challenger", offset=8)]
    first, second = states(TERMS, (both, 0), ([label(MINUTE)], 0))
    assert first == [(None, None, "pending", None)] * 2
    assert second == [("pending", None, "matched", 1.0)] * 2


def test_a_thousand_labels_of_one_id_do_not_fill_its_state() -> None:
    case, _ = advance_case(OutcomeCase(), [scored(), label(MINUTE)], START, TERMS)
    for offset in range(1, 1000):
        assert case is not None
        case, changes = advance_case(case, [label(40 * MINUTE + offset, offset=offset)], START, TERMS)
        assert [change.state_after for change in changes] == ["orphan"], "it came when the prediction was closed"
    assert case is not None
    assert len(case.labels) == MAX_LABELS + 1
    assert label(MINUTE) in case.labels.values(), "the label that counts is never let go"


def lessons(
    terms: LabelPolicy, *steps: tuple[list[PredictionEvent | LabelEvent], int]
) -> list[tuple[str, float | None]]:
    """What can be learned from each step: a vector and its label."""
    case, found = OutcomeCase(), []
    for news, clock_us in steps:
        left, changes = advance_case(case, news, START + clock_us, terms)
        case = left or OutcomeCase()
        case = decode_case(encode_case(case))
        found += [(one.features, one.label_after) for one in changes if one.features is not None]
    return found


def test_a_label_teaches_when_it_counts_first_and_never_again() -> None:
    served = scored(features="x")
    assert lessons(TERMS, ([served], 0), ([label(MINUTE)], 0), ([label(2 * MINUTE, 0.0, 1)], 0)) == [("x", 1.0)]
    assert lessons(TERMS, ([label(MINUTE)], 0), ([served], 0), ([served, label(MINUTE)], 0)) == [("x", 1.0)]
    assert lessons(TERMS, ([served], 0), ([], 60 * MINUTE)) == [("x", 0.0)]
    late = label(2 * MINUTE, late_us=29 * MINUTE)
    assert lessons(TERMS, ([served], 0), ([late], 0), ([], 60 * MINUTE)) == [("x", 1.0)]
    without = LabelPolicy(within_us=30 * MINUTE, late_us=MINUTE)
    assert lessons(without, ([served], 0), ([label(31 * MINUTE)], 0), ([], 90 * MINUTE)) == []
    assert lessons(TERMS, ([scored()], 0), ([label(MINUTE)], 0)) == []
