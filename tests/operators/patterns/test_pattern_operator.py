"""The pattern operator emits what the definition says, whatever the batches and the clocks."""

from heapq import heappop
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

import headrace as hr
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.operations.pattern import Pattern
from headrace.declare.operations.pattern_outputs import PatternOutputs
from headrace.operators.operator import InputEvent, OutputEvent, advance_operator
from headrace.operators.patterns.match_state import matched_events
from headrace.operators.patterns.pattern_operator import PatternOperator
from tests.oracle.random_sequences import STRATEGIES, events, question, sequence, values
from tests.oracle.sequences import Chain, Definition, Event

MINUTE = 60_000_000
PATIENCE = 3
LETTERS = hr.Stream(
    "letters", schema="e string, k string, x string, n bigint, at timestamp", id="e", key="k", time="at"
)
LOGINS = hr.Stream(
    "logins",
    schema="id bigint, user string, ok boolean, ip string, score double, at timestamp",
    id="id",
    key="user",
    time="at",
    late=hr.Late("2m"),
)


def random_arrivals(random: Random) -> list[tuple[Event, InputEvent]]:
    """Events in shuffled order, some of them late."""
    happened = events(random)
    places = random.sample(range(len(happened)), len(happened))
    return [
        (
            event,
            InputEvent(0, f"e{n}", event.time, event.time + random.randint(-2, PATIENCE + 1), 0, n, values(event, n)),
        )
        for n, event in zip(places, happened, strict=True)
    ]


def run_in_batches(operator: PatternOperator, arrived: list[InputEvent], random: Random | None) -> list[OutputEvent]:
    """What is made: in one go, or batch by batch with random clocks, what is kept being packed in between."""
    left, kept, made, clock_us = list(arrived), operator.create_state(), list[OutputEvent](), -10
    while left and random is not None:
        clock_us += random.randint(0, 4)
        taken = [one for one in left if one.arrival_us < clock_us or random.random() < 0.1]
        left = [one for one in left if one not in taken]
        random.shuffle(taken)
        made += advance_operator(operator, ("k",), kept, taken, clock_us)
        kept = operator.decode_state(operator.encode_state(kept))
    made += advance_operator(operator, ("k",), kept, left, 1_000)
    assert operator.next_timer_us(kept) is None
    return made


def told(made: list[OutputEvent], output: str) -> list[OutputEvent]:
    return [one for one in made if one.output == output]


def as_row(definition: Definition, chain: Chain, ids: list[Any]) -> dict[str, Any]:
    """A match or a time-out of the definition, as the row that is emitted."""
    row: dict[str, Any] = {"pattern": "t", "started_at": definition.begin(chain)[0], "events": len(chain)}
    for number in range(len(definition.question.steps)):
        taken = [ids[event] for event, by in chain if by == number]
        first, last = (taken[0], taken[-1]) if taken else (None, None)
        row |= {f"s{number}_count": len(taken), f"s{number}_first_id": first, f"s{number}_last_id": last}
    return row


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**40), after=st.sampled_from(STRATEGIES))
def test_whatever_the_batches_and_clocks_what_is_told_is_what_the_definition_says(seed: int, after: str) -> None:
    random = Random(seed)
    asked, pairs = question(random), random_arrivals(random)
    what = sequence(asked, after, PATIENCE)
    operator = PatternOperator(what)
    made = run_in_batches(operator, [one for _, one in pairs], random)

    in_time = sorted((one.time_us, one.offset, one.id, event) for event, one in pairs if one.lateness_us <= PATIENCE)
    definition, ids = Definition(asked, [one[3] for one in in_time]), [one[2] for one in in_time]
    matches = [as_row(definition, one, ids) | {"ended_at": definition.end(one)[0]} for one in definition.matches(after)]
    timeouts = [
        as_row(definition, one, ids)
        | {"ended_at": definition.deadline(one)[0], "reached": f"s{one[-1][1]}", "why": "within"}
        for one in definition.timeouts(after)
    ]
    assert [one.values for one in told(made, "out")] == matches
    assert [one.values for one in told(made, "timeouts")] == timeouts
    assert {one.values["e"] for one in told(made, "late")} == {one.id for _, one in pairs} - set(ids)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**40), after=st.sampled_from(STRATEGIES))
def test_other_batches_and_clocks_make_the_same_rows_with_the_same_ids_and_times(seed: int, after: str) -> None:
    random = Random(seed)
    what, arrived = sequence(question(random), after, PATIENCE, partials=3), [one for _, one in random_arrivals(random)]
    operator = PatternOperator(what)
    at_once = run_in_batches(operator, arrived, None)
    made = run_in_batches(operator, arrived, random)
    for output in ("out", "timeouts"):
        assert told(made, output) == told(at_once, output)
    assert sorted(told(made, "late"), key=lambda one: one.id) == sorted(told(at_once, "late"), key=lambda one: one.id)
    assert len({one.id for one in made}) == len(made)


def guessed(**settings: Any) -> Pattern:
    return hr.pattern("three failed logins, then a success", by="user", within="10m", **settings)


def fails_then_success(**settings: Any) -> PatternOutputs:
    return guessed(**settings).step("fail", where="not ok", times=3).then("success", where="ok", keep=["ip"]).on(LOGINS)


def login(number: int, minute: float, ok: bool, late_minutes: float = 0, **values: Any) -> InputEvent:
    time_us = round(minute * MINUTE)
    said = {"id": number, "user": "u", "ok": ok, "ip": f"10.0.0.{number}", "score": 0.0, "at": time_us} | values
    return InputEvent(0, number, time_us, time_us + round(late_minutes * MINUTE), 0, number, said)


def operator_of(matches: PatternOutputs) -> PatternOperator:
    operation = matches.out.made_by
    assert isinstance(operation, StreamOperation)
    return PatternOperator(operation.spec)


def made_of(matches: PatternOutputs, logins: list[InputEvent], clock_minutes: float = 10_000) -> list[OutputEvent]:
    operator = operator_of(matches)
    return list(advance_operator(operator, ("u",), operator.create_state(), logins, round(clock_minutes * MINUTE)))


def test_a_match_says_who_when_how_many_and_what_was_asked_to_be_kept() -> None:
    logins = [login(1, 0, ok=False), login(2, 1, ok=True), login(3, 2, ok=False), login(4, 3, ok=False)]
    (match,) = told(made_of(fails_then_success(), [*logins, login(5, 4, ok=True)]), "out")
    assert match.values == {
        "pattern": "three failed logins, then a success",
        "started_at": 0,
        "ended_at": 4 * MINUTE,
        "events": 4,
        "fail_count": 3,
        "fail_first_id": 1,
        "fail_last_id": 4,
        "success_count": 1,
        "success_first_id": 5,
        "success_last_id": 5,
        "success_ip": "10.0.0.5",
    }
    assert (match.time_us, match.known_us) == (4 * MINUTE, 6 * MINUTE + 1)


def test_a_match_is_told_as_soon_as_nothing_before_its_end_can_come() -> None:
    logins = [*(login(n, n, ok=False) for n in range(3)), login(3, 4, ok=True)]
    assert made_of(fails_then_success(), logins, clock_minutes=6) == []
    assert [one.output for one in made_of(fails_then_success(), logins, clock_minutes=6.001)] == ["out"]


def test_every_column_that_is_told_is_declared() -> None:
    matches = fails_then_success(late=hr.Late("1m"))
    logins = [login(1, 0, ok=False), *(login(n, 50 + n, ok=n == 5) for n in range(2, 6)), login(9, 60, True, 1.5)]
    made = made_of(matches, logins)
    for stream in matches:
        assert isinstance(stream, DerivedStream)
        (row, *_) = told(made, stream.output)
        given_by_host = {stream.id, stream.time, stream.arrival, "user"}
        assert set(row.values) | given_by_host == set(stream.schema.names)


def test_a_late_event_is_put_aside_and_changes_nothing() -> None:
    logins = [login(n, n, ok=n == 4) for n in range(1, 5)]
    late = login(9, 0, False, 2.1)
    made = made_of(fails_then_success(), [*logins, late])
    assert told(made, "out") == told(made_of(fails_then_success(), logins), "out")
    (aside,) = told(made, "late")
    assert aside.values == {"logins_id": 9, "user": "u", "ok": False, "ip": "10.0.0.9", "score": 0.0, "at": 0}
    assert (aside.time_us, aside.known_us) == (0, late.arrival_us)


def test_what_is_out_of_order_but_in_time_is_matched_in_its_order() -> None:
    logins = [login(1, 2, False), login(2, 0, False, 2), login(3, 1, False, 1.5), login(4, 3, True)]
    (match,) = told(made_of(fails_then_success(), logins), "out")
    assert (match.values["fail_first_id"], match.values["fail_last_id"]) == (2, 1)


def test_what_did_not_come_in_time_is_told_with_how_far_it_came() -> None:
    matches = guessed().step("fail", where="not ok", times=2).then("success", where="ok").on(LOGINS)
    logins = [login(1, 0, ok=False), login(2, 3, ok=False), login(3, 20, ok=True)]
    first, second = told(made_of(matches, logins), "timeouts")
    assert (first.values["reached"], first.values["fail_count"], first.values["why"]) == ("fail", 2, "within")
    assert (first.time_us, first.known_us) == (10 * MINUTE, 12 * MINUTE + 1)
    assert (second.values["fail_first_id"], second.values["fail_count"]) == (2, 1)


def test_what_never_came_is_told_when_its_time_is_over() -> None:
    matches = guessed().step("fail", where="not ok").never("success", where="ok").on(LOGINS)
    assert told(made_of(matches, [login(1, 0, ok=False), login(2, 10, ok=True)]), "out") == []
    (match,) = told(made_of(matches, [login(1, 0, ok=False), login(2, 10.1, ok=True)]), "out")
    assert (match.time_us, match.values["ended_at"], match.values["events"]) == (10 * MINUTE, 10 * MINUTE, 1)


def test_a_condition_may_compare_with_what_was_taken_before() -> None:
    matches = (
        guessed()
        .step("low", where="score < 1", times="2+")
        .then("high", where="score > 10 * first(low.score) and ip = last(low.ip)")
        .on(LOGINS)
    )
    scores = [(0.5, "a"), (0.1, "b"), (2.0, "b"), (6.0, "a"), (6.0, "b")]
    logins = [login(n, n, True, score=score, ip=ip) for n, (score, ip) in enumerate(scores)]
    (match,) = told(made_of(matches, logins), "out")
    assert (match.values["low_count"], match.values["high_first_id"]) == (2, 4)


def letters(pattern: Pattern, written: str) -> list[str]:
    """The matches of a pattern in logins that have these letters as their addresses."""
    operator = operator_of(pattern.on(LOGINS))
    logins = [login(number, number / 10, ok=True, ip=ip) for number, ip in enumerate(written.split())]
    ways: list[str] = []
    kept = operator.create_state()
    for one in logins:
        list(operator.process_event(("u",), kept, one))
    while kept.pending_events:
        ended = operator._matcher.process_event(kept.partial_matches, heappop(kept.pending_events))
        ways += [
            "".join(logins[int(one.event.id)].values["ip"] for one in matched_events(each.partial_match.last_event))
            for each in ended
        ]
    return ways


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("skip_past_last", ["s1s2s3L"]),
        ("skip_to_next", ["s1s2s3L", "s2s3L"]),
        ("no_skip", ["s1s2s3L", "s1s2L", "s2s3L"]),
    ],
)
def test_which_matches_are_told_is_as_the_docs_say(after: Any, told: list[str]) -> None:
    pattern = guessed(after=after).step("small", where="ip in ('s1', 's2', 's3')", times="2+")
    assert letters(pattern.then("large", where="ip = 'L'"), "s1 s2 s3 L") == told


@pytest.mark.parametrize(("word", "told"), [("next", ["ab1"]), ("then", ["ab1"]), ("then_any", ["ab1", "ab2"])])
def test_how_near_a_step_is_is_as_the_docs_say(word: str, told: list[str]) -> None:
    pattern = getattr(guessed(after="no_skip").step("a", where="ip = 'a'"), word)("b", where="ip in ('b1', 'b2')")
    assert letters(pattern, "a b1 c b2") == told


def test_where_too_many_are_open_the_oldest_are_given_up_and_told() -> None:
    matches = (
        guessed(after="no_skip", partials=100)
        .step("fail", where="not ok", times="1+", repeat="then_any")
        .then("success", where="ok")
        .on(LOGINS)
    )
    operator = operator_of(matches)
    kept, made = operator.create_state(), list[OutputEvent]()
    for number in range(200):
        made += advance_operator(
            operator, ("u",), kept, [login(number, number / 100, ok=False)], round(number / 100 * MINUTE)
        )
        assert len(kept.partial_matches) <= 100
    made += advance_operator(operator, ("u",), kept, [], 3 * MINUTE)
    crowded = [one for one in told(made, "timeouts") if one.values["why"] == "crowded"]
    assert [one.values["fail_first_id"] for one in crowded] == list(range(len(crowded)))
    assert len(crowded) > 90


@pytest.mark.parametrize("repeat", ["then", "then_any"])
def test_of_matches_that_begin_together_only_those_that_may_be_told_are_kept(repeat: Any) -> None:
    settings = {"where": "not ok", "times": "3+", "repeat": repeat}
    operator = operator_of(guessed().step("fail", **settings).then("success", where="ok").on(LOGINS))
    kept = operator.create_state()
    list(advance_operator(operator, ("u",), kept, [login(n, n / 100, ok=False) for n in range(50)], 5 * MINUTE))
    assert len(kept.partial_matches) <= 4 * 50
    (match,) = told(list(advance_operator(operator, ("u",), kept, [login(50, 4, ok=True)], 10 * MINUTE)), "out")
    assert match.values["fail_count"] == 50


def test_what_is_kept_is_the_same_after_it_was_packed_and_not_a_number_stays_so() -> None:
    matches = guessed().step("fail", where="not ok", keep=["score"]).then("success", where="ok").on(LOGINS)
    operator = operator_of(matches)
    kept = operator.create_state()
    score = float("inf")
    list(
        advance_operator(
            operator, ("u",), kept, [login(1, 0, False, score=score), login(2, 5, False, score=None)], 3 * MINUTE
        )
    )
    again = operator.decode_state(orjson.dumps(orjson.loads(operator.encode_state(kept))))
    assert operator.encode_state(again) == operator.encode_state(kept)
    made = list(advance_operator(operator, ("u",), again, [login(3, 6, ok=True)], 20 * MINUTE))
    assert [one.values["fail_score"] for one in told(made, "out")] == [score]


def test_it_goes_to_other_machines_and_tells_the_same_there() -> None:
    operator = operator_of(fails_then_success())
    logins = [login(n, n, ok=n == 4) for n in range(1, 5)]
    there = cloudpickle.loads(cloudpickle.dumps(operator))
    made = [list(advance_operator(one, ("u",), one.create_state(), logins, 100 * MINUTE)) for one in (operator, there)]
    assert made[0] == made[1] != []


def test_an_event_that_changes_nothing_is_not_kept() -> None:
    relaxed = guessed().step("low", where="score < 1").then("high", where="score > 100")
    for pattern, kept_events in ((relaxed, 0), (relaxed.next("higher", where="score > 1000"), 1)):
        operator = operator_of(pattern.on(LOGINS))
        kept = operator.create_state()
        list(operator.process_event(("u",), kept, login(1, 0, ok=True, score=50.0)))
        assert len(kept.pending_events) == kept_events


def test_a_key_of_which_nothing_is_open_is_forgotten() -> None:
    operator = operator_of(fails_then_success())
    kept = operator.create_state()
    list(advance_operator(operator, ("u",), kept, [login(1, 0, ok=True)], 0))
    assert operator.next_timer_us(kept) == 2 * MINUTE + 1
    list(advance_operator(operator, ("u",), kept, [], 3 * MINUTE))
    assert operator.next_timer_us(kept) is None
