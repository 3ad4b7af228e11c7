"""What an operator raises is put aside, and everything else goes on."""

from typing import Any

import orjson
import pytest

from headrace.operators.careful import stepped
from headrace.operators.operator import Arrived, Operator, step
from tests.stream.echoes import Echo, Echoes

POISON, FUSE = 13.0, 99.0


def event(number: int, amount: float = 1.0) -> Arrived:
    return Arrived(0, f"e{number}", number, number, 0, number, {"amount": amount})


def echoes() -> Operator[Any]:
    return Echoes(Echo(after_us=10, poison=POISON, fuse=FUSE))


def test_an_event_that_cannot_be_taken_is_put_aside_and_leaves_no_trace() -> None:
    done = stepped(echoes(), ("c",), None, [event(1), event(2, POISON), event(3)], clock_us=12)
    assert [one.id for one in done.made] == ["c-0-e1", "c-0-e3", "c-woken-11"]
    assert [(one.event and one.event.id, one.why) for one in done.raised] == [("e2", "ValueError: cannot take 13.0")]
    assert done.packed is not None
    assert orjson.loads(done.packed) == {"arrivals": [3], "burns": False}
    assert done.due_us == 13


def test_a_key_that_cannot_be_woken_is_put_aside_whole_and_begins_anew() -> None:
    before = stepped(echoes(), ("c",), None, [event(1), event(2, FUSE)], clock_us=0).packed
    done = stepped(echoes(), ("c",), before, [event(3)], clock_us=20)
    assert [one.id for one in done.made] == ["c-0-e3"], "what is made of an event does not wait for that"
    (raised,) = done.raised
    assert raised.event is None
    assert orjson.loads(raised.kept)["arrivals"] == [1, 2, 3]
    assert (done.packed, done.due_us) == (None, None)


def test_what_was_kept_and_cannot_be_read_is_put_aside_and_the_key_begins_anew() -> None:
    done = stepped(echoes(), ("c",), b"not what it wrote", [event(1)], clock_us=0)
    assert [one.id for one in done.made] == ["c-0-e1"]
    assert [one.kept for one in done.raised] == [b"not what it wrote"]
    assert orjson.loads(done.packed or b"")["arrivals"] == [1]


@pytest.mark.parametrize("clock_us", [0, 11, 100])
def test_where_nothing_is_raised_a_careful_step_is_a_step(clock_us: int) -> None:
    events, kept = [event(3), event(1)], echoes().begin()
    made = list(step(echoes(), ("c",), kept, events, clock_us))
    done = stepped(echoes(), ("c",), None, events, clock_us)
    assert done.made == made
    assert not done.raised
    assert done.packed == (echoes().packed(kept) if kept["arrivals"] else None)
