"""Each event once, whatever comes again, and nothing remembered for longer than it can."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.operators.once import GRAINS, Once, remember_us
from headrace.operators.operator import Arrived, Key, Made, step

UNTIL_US = 60_000_000


class Taken:
    """Keeps the ids it was given."""

    def begin(self) -> list[Any]:
        return []

    def take(self, key: Key, kept: list[Any], event: Arrived) -> Iterator[Made]:
        kept.append([event.source, event.id])
        yield Made("out", f"{event.source}-{event.id}", event.time_us, event.arrival_us, {})

    def due_us(self, kept: list[Any]) -> int | None:
        return None

    def wake(self, key: Key, kept: list[Any], at_us: int) -> Iterator[Made]:
        yield from ()

    def packed(self, kept: list[Any]) -> bytes:
        return orjson.dumps(kept)

    def unpacked(self, packed: bytes) -> list[Any]:
        return list(orjson.loads(packed))


def once() -> Once[Any]:
    return Once(Taken(), (UNTIL_US, UNTIL_US))


@st.composite
def histories(draw: st.DrawFn) -> list[list[Arrived]]:
    """Batches of events, many of them again: an event keeps its time, and comes while it is not too late."""
    times = draw(st.lists(st.integers(0, 10 * UNTIL_US), min_size=1, max_size=8))
    coming = st.tuples(st.integers(0, len(times) - 1), st.integers(0, 1), st.integers(-1_000_000, UNTIL_US))
    events = []
    for number, (which, source, late_us) in enumerate(draw(st.lists(coming, max_size=40))):
        arrival_us = times[which] + late_us
        events.append(Arrived(source, f"e{which}", times[which], arrival_us, 0, number, {}))
    events.sort(key=lambda event: event.order)
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=5)))
    bounds = [0, *cuts, len(events)]
    return [events[a:b] for a, b in pairwise(bounds)]


@given(histories())
def test_each_event_is_taken_once_however_late_the_clock_and_often_it_is_packed(
    batches: list[list[Arrived]],
) -> None:
    operator, kept, made = once(), once().begin(), list[Made]()
    every = [event for batch in batches for event in batch]
    for batch in batches:
        clock_us = batch[0].arrival_us if batch else 0  # all that arrived before is here
        made += step(operator, ("k",), kept, batch, 0)
        made += step(operator, ("k",), kept, [], clock_us)
        kept = operator.unpacked(operator.packed(kept))
    assert sorted(one.id for one in made) == sorted({f"{event.source}-{event.id}" for event in every})


@given(histories())
def test_ids_are_let_go_soon_after_none_can_come_again(batches: list[list[Arrived]]) -> None:
    operator, kept = once(), once().begin()
    every = [event for batch in batches for event in batch]
    list(step(operator, ("k",), kept, every, 0))
    newest_us = max((max(event.arrival_us, event.time_us) for event in every), default=0)
    list(step(operator, ("k",), kept, [], newest_us + UNTIL_US + UNTIL_US // GRAINS + 1))
    assert not kept.ids
    assert not kept.until
    assert operator.due_us(kept) is None, "a key of which nothing is remembered is forgotten"


def test_of_two_events_with_one_id_the_first_counts() -> None:
    first, second = Arrived(0, "a", 5, 5, 0, 0, {"n": 1}), Arrived(0, "a", 6, 6, 0, 1, {"n": 2})
    (made,) = step(once(), ("k",), once().begin(), [second, first], 0)
    assert made.time_us == 5


def test_an_event_that_cannot_be_taken_is_not_remembered_as_taken() -> None:
    class Fussy(Taken):
        def take(self, key: Key, kept: list[Any], event: Arrived) -> Iterator[Made]:
            raise ValueError("no")
            yield

    operator = Once(Fussy(), (UNTIL_US,))
    kept = operator.begin()
    with pytest.raises(ValueError, match="no"):
        list(operator.take(("k",), kept, Arrived(0, "a", 5, 5, 0, 0, {})))
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
    assert remember_us([stream]) == (3_600_000_000 + 60_000_000 + 1_000_000,)
