"""Deduplication: each event once, whatever is repeated, and no id is kept longer than a repetition can arrive."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.operators.deduplication import GRAINS_PER_RETENTION, DeduplicatingOperator, id_retentions_us
from headrace.operators.operator import InputEvent, Key, OutputEvent, advance_operator

UNTIL_US = 60_000_000


class Taken:
    """Keeps the ids it was given."""

    def create_state(self) -> list[Any]:
        return []

    def process_event(self, key: Key, kept: list[Any], event: InputEvent) -> Iterator[OutputEvent]:
        kept.append([event.input_index, event.id])
        yield OutputEvent("out", f"{event.input_index}-{event.id}", event.time_us, event.arrival_us, {})

    def next_timer_us(self, kept: list[Any]) -> int | None:
        return None

    def on_timer(self, key: Key, kept: list[Any], at_us: int) -> Iterator[OutputEvent]:
        yield from ()

    def encode_state(self, kept: list[Any]) -> bytes:
        return orjson.dumps(kept)

    def decode_state(self, packed: bytes) -> list[Any]:
        return list(orjson.loads(packed))


def once() -> DeduplicatingOperator[Any]:
    return DeduplicatingOperator(Taken(), (UNTIL_US, UNTIL_US))


@st.composite
def histories(draw: st.DrawFn) -> list[list[InputEvent]]:
    """Batches of events, many of them again: an event keeps its time, and comes while it is not too late."""
    times = draw(st.lists(st.integers(0, 10 * UNTIL_US), min_size=1, max_size=8))
    coming = st.tuples(st.integers(0, len(times) - 1), st.integers(0, 1), st.integers(-1_000_000, UNTIL_US))
    events = []
    for number, (which, source, late_us) in enumerate(draw(st.lists(coming, max_size=40))):
        arrival_us = times[which] + late_us
        events.append(InputEvent(source, f"e{which}", times[which], arrival_us, 0, number, {}))
    events.sort(key=lambda event: event.sort_key)
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=5)))
    bounds = [0, *cuts, len(events)]
    return [events[a:b] for a, b in pairwise(bounds)]


@given(histories())
def test_each_event_is_taken_once_however_late_the_clock_and_often_it_is_packed(
    batches: list[list[InputEvent]],
) -> None:
    operator, kept, made = once(), once().create_state(), list[OutputEvent]()
    every = [event for batch in batches for event in batch]
    for batch in batches:
        clock_us = batch[0].arrival_us if batch else 0  # all that arrived before is here
        made += advance_operator(operator, ("k",), kept, batch, 0)
        made += advance_operator(operator, ("k",), kept, [], clock_us)
        kept = operator.decode_state(operator.encode_state(kept))
    assert sorted(one.id for one in made) == sorted({f"{event.input_index}-{event.id}" for event in every})


@given(histories())
def test_ids_are_let_go_soon_after_none_can_come_again(batches: list[list[InputEvent]]) -> None:
    operator, kept = once(), once().create_state()
    every = [event for batch in batches for event in batch]
    list(advance_operator(operator, ("k",), kept, every, 0))
    newest_us = max((max(event.arrival_us, event.time_us) for event in every), default=0)
    list(advance_operator(operator, ("k",), kept, [], newest_us + UNTIL_US + UNTIL_US // GRAINS_PER_RETENTION + 1))
    assert not kept.ids
    assert not kept.ids_by_expiry
    assert operator.next_timer_us(kept) is None, "a key of which nothing is remembered is forgotten"


def test_of_two_events_with_one_id_the_first_counts() -> None:
    first, second = InputEvent(0, "a", 5, 5, 0, 0, {"n": 1}), InputEvent(0, "a", 6, 6, 0, 1, {"n": 2})
    (made,) = advance_operator(once(), ("k",), once().create_state(), [second, first], 0)
    assert made.time_us == 5


def test_an_event_that_cannot_be_taken_is_not_remembered_as_taken() -> None:
    class Fussy(Taken):
        def process_event(self, key: Key, kept: list[Any], event: InputEvent) -> Iterator[OutputEvent]:
            raise ValueError("no")
            yield

    operator = DeduplicatingOperator(Fussy(), (UNTIL_US,))
    kept = operator.create_state()
    with pytest.raises(ValueError, match="no"):
        list(operator.process_event(("k",), kept, InputEvent(0, "a", 5, 5, 0, 0, {})))
    assert not kept.ids


def test_how_long_ids_are_kept_is_as_long_as_a_gate_lets_them_pass() -> None:
    stream = hr.Stream(
        "s",
        schema="id string, card string, at timestamp",
        id="id",
        key="card",
        time="at",
        late=hr.Late("2m", then="update", until="1h"),
        ahead="1m",
    )
    assert id_retentions_us([stream]) == (3_600_000_000 + 60_000_000 + 1_000_000,)
