"""Windows equal their definition over the set of events, whatever the order, batches and restarts."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.declare.operations.windowed_stream import Windowing
from headrace.operators.operator import InputEvent, OutputEvent, advance_operator
from headrace.operators.windows.window_operator import WindowOperator
from tests.operators import window_oracle as brute
from tests.operators.window_oracle import S, event

KEY = ("u",)
AFTER = 60
END_US = 10**6 * S
SHAPES: dict[str, Any] = {
    "tumbling": hr.Tumbling("1m"),
    "sliding": hr.Sliding("2m", every="30s"),
    "session": hr.Session("40s"),
    "cut session": hr.Session("40s", longest="90s"),
    "session by column": hr.Session(gap_column="gap", longest="2m"),
}
LATE = {
    "drop": hr.Late("60s", then="drop"),
    "side_output": hr.Late("60s", then="side_output"),
    "update": hr.Late("60s", then="update", until="180s"),
}


def clicks() -> hr.Stream:
    schema = "click string, user string, page string, amount double, gap double, at timestamp"
    return hr.Stream("clicks", schema=schema, id="click", key="user", time="at", late=hr.Late("1h"))


@cache
def declared(shape: Any, late: hr.Late, **more: Any) -> Windowing:
    words = {"events": hr.count(), "spend": hr.sum("amount"), "first": hr.first("page"), "largest": hr.max("amount")}
    made_by = hr.windowed("visits", clicks(), by="user", over=shape, late=late, **more, **words).out.made_by
    what = made_by.spec  # type: ignore[attr-defined]
    assert isinstance(what, Windowing)
    return what


def run(
    what: Windowing, steps: Sequence[tuple[Sequence[InputEvent], int]], *, packed: bool = False
) -> list[OutputEvent]:
    operator = WindowOperator(what)
    kept, made = operator.create_state(), []
    for events, clock_us in steps:
        made += advance_operator(operator, KEY, kept, events, clock_us)
        if packed:
            kept = WindowOperator(what).decode_state(operator.encode_state(kept))
    return made


def out(made: Sequence[OutputEvent], output: str) -> list[OutputEvent]:
    return [one for one in made if one.output == output]


def one_by_one(events: Sequence[InputEvent]) -> list[tuple[list[InputEvent], int]]:
    """Each event as it arrives, time passing up to it; at the end all time."""
    arriving = sorted(events, key=lambda one: one.sort_key)
    return [*(([one], one.arrival_us) for one in arriving), ([], END_US)]


@pytest.mark.shows("tumbling window", "sliding window", "session window", late=("drop", "side_output", "update"))
@pytest.mark.parametrize("shape", ["tumbling", "sliding", "session"])
@pytest.mark.parametrize("then", list(LATE))
@pytest.mark.parametrize("behind", [30, 60, 300])
def test_what_comes_late_goes_where_the_policy_says(shape: str, then: str, behind: int) -> None:
    on_time = [event(number, at=number * 25 + number // 4 * 100) for number in range(12)]
    injected = [event(100 + number, at=number * 50 + 5, late=AFTER + behind, amount=7.0) for number in range(4)]
    what, everything = declared(SHAPES[shape], LATE[then]), [*on_time, *injected]
    made = run(what, one_by_one(everything))
    corrects = then == "update" and behind <= 120
    assert any(one.values["kind"] == "correction" for one in out(made, "out")) == corrects
    expected = brute.windows(SHAPES[shape], everything if corrects else on_time)
    assert brute.standing(made) == {bounds: brute.row(inside) for bounds, (_, inside) in expected.items()}
    put_aside = [] if corrects or then == "drop" else sorted(one.id for one in injected)
    assert sorted(one.id for one in out(made, "late")) == put_aside
    assert all(one.values["lateness_us"] == (AFTER + behind) * S for one in out(made, "late"))
    assert sum(one.values["late_rows"] for one in out(made, "closed")) == (0 if corrects else len(injected))


amounts = st.one_of(st.none(), st.integers(-40, 40).map(lambda number: number / 4), st.sampled_from([0.1, 1e300]))
gaps = st.sampled_from([None, -1.0, 0.0, 10.0, 40.0, 90.5, float("nan"), float("inf")])


@st.composite
def histories(draw: Any) -> list[InputEvent]:
    """Events close to each other and at round times, as well as any: windows have ends at which to err."""
    at = st.one_of(st.integers(0, 600), st.integers(0, 30).map(lambda number: number * 20))
    late = st.one_of(st.just(0), st.integers(-20, 400))
    times = draw(st.lists(st.tuples(at, late, amounts, gaps), max_size=25))
    return [event(number, *rest) for number, rest in enumerate(times)]


@st.composite
def batched(draw: Any, events: Sequence[InputEvent], *, in_order: bool) -> list[tuple[list[InputEvent], int]]:
    """Events in any batches, in the order they arrived or in any; the clock is never ahead of what was taken."""
    left = sorted(events, key=lambda one: one.sort_key)
    left = left if in_order else list(draw(st.permutations(left)))
    steps, clock_us = [], -(10**6) * S
    while left:
        size = draw(st.integers(0, len(left)))
        taken, left = left[:size], left[size:]
        limit_us = min([one.arrival_us for one in left], default=END_US)
        if limit_us > clock_us and draw(st.booleans()):
            clock_us = draw(st.integers(clock_us, limit_us))
        steps.append((taken, clock_us))
        if not size and not draw(st.booleans()):
            steps.append((left[:1], clock_us))
            left = left[1:]
    return [*steps, ([], END_US)]


TELLS: list[dict[str, Any]] = [{}, {"emit": "update"}, {"every": "45s"}]


@given(st.data(), histories(), st.sampled_from(list(SHAPES)), st.sampled_from(list(LATE)), st.sampled_from(TELLS))
@settings(max_examples=100, deadline=None)
def test_the_end_does_not_depend_on_how_events_were_read(
    data: Any, events: list[InputEvent], shape: str, then: str, tells: dict[str, Any]
) -> None:
    what = declared(SHAPES[shape], LATE[then], **tells)
    made = run(what, data.draw(batched(events, in_order=False)), packed=True)
    assert brute.standing(made) == brute.closed(SHAPES[shape], LATE[then], events, END_US)
    assert len({one.id for one in made if one.output == "out"}) == len(out(made, "out"))
    late = [one for one in events if one.lateness_us > LATE[then].until_us]
    assert sorted(one.id for one in out(made, "late")) == sorted([] if then == "drop" else [one.id for one in late])
    assert sum(one.values["late_rows"] for one in out(made, "closed")) == len(late)
    assert len({one.id for one in out(made, "closed")}) == len(out(made, "closed"))


@given(st.data(), histories(), st.sampled_from(list(SHAPES)), st.sampled_from(list(LATE)), st.sampled_from(TELLS))
@settings(max_examples=60, deadline=None)
def test_events_read_as_they_arrived_make_the_same_rows_in_any_batches(
    data: Any, events: list[InputEvent], shape: str, then: str, tells: dict[str, Any]
) -> None:
    what = declared(SHAPES[shape], LATE[then], **tells)
    made = run(what, data.draw(batched(events, in_order=True)), packed=True)
    assert sorted(map(str, made)) == sorted(map(str, run(what, one_by_one(events))))  # as text: NaN is not NaN


@pytest.mark.parametrize("shape", ["tumbling", "sliding", "session"])
def test_a_backlog_is_kept_in_tallies_and_not_event_by_event(shape: str) -> None:
    operator = WindowOperator(declared(SHAPES[shape], LATE["side_output"]))
    kept = operator.create_state()
    list(advance_operator(operator, KEY, kept, [event(number, number) for number in range(900)], clock_us=0))
    assert kept.waiting_events == []


@given(histories(), st.sampled_from(list(SHAPES)), st.sampled_from(list(LATE)), st.lists(st.integers(0, 1100)))
@settings(max_examples=60, deadline=None)
def test_what_was_told_less_what_was_taken_back_is_true_at_every_moment(
    events: list[InputEvent], shape: str, then: str, clocks: list[int]
) -> None:
    what, operator = declared(SHAPES[shape], LATE[then]), WindowOperator(declared(SHAPES[shape], LATE[then]))
    left, kept, made = sorted(events, key=lambda one: one.sort_key), operator.create_state(), list[OutputEvent]()
    for clock_us in [*(clock * S for clock in sorted(clocks)), END_US]:
        taken = [one for one in left if one.arrival_us < clock_us]
        left = left[len(taken) :]
        made += advance_operator(operator, KEY, kept, taken, clock_us)
        assert brute.standing(made) == brute.closed(what.over, what.late, events, clock_us)
    assert operator.next_timer_us(kept) is None
    assert kept == operator.create_state()
