"""An event on which an operator raises is put aside; processing continues."""

from typing import Any

import orjson
import pytest

from headrace.operators.error_isolation import advance_isolating_errors
from headrace.operators.operator import InputEvent, Operator, advance_operator
from tests.spark.echo_operation import Echo, Echoes

POISON, FUSE = 13.0, 99.0


def event(number: int, amount: float = 1.0) -> InputEvent:
    return InputEvent(0, f"e{number}", number, number, 0, number, {"amount": amount})


def echoes() -> Operator[Any]:
    return Echoes(Echo(after_us=10, poison=POISON, fuse=FUSE))


def test_an_event_that_cannot_be_taken_is_put_aside_and_leaves_no_trace() -> None:
    done = advance_isolating_errors(echoes(), ("c",), None, [event(1), event(2, POISON), event(3)], clock_us=12)
    assert [one.id for one in done.outputs] == ["c-0-e1", "c-0-e3", "c-woken-11"]
    assert [(one.event and one.event.id, one.reason) for one in done.failures] == [
        ("e2", "ValueError: cannot take 13.0")
    ]
    assert done.encoded_state is not None
    assert orjson.loads(done.encoded_state) == {"arrivals": [3], "burns": False}
    assert done.next_timer_us == 13


def test_a_key_that_cannot_be_woken_is_put_aside_whole_and_begins_anew() -> None:
    before = advance_isolating_errors(echoes(), ("c",), None, [event(1), event(2, FUSE)], clock_us=0).encoded_state
    done = advance_isolating_errors(echoes(), ("c",), before, [event(3)], clock_us=20)
    assert [one.id for one in done.outputs] == ["c-0-e3"], "what is made of an event does not wait for that"
    (raised,) = done.failures
    assert raised.event is None
    assert orjson.loads(raised.encoded_state)["arrivals"] == [1, 2, 3]
    assert (done.encoded_state, done.next_timer_us) == (None, None)


def test_what_was_kept_and_cannot_be_read_is_put_aside_and_the_key_begins_anew() -> None:
    done = advance_isolating_errors(echoes(), ("c",), b"not what it wrote", [event(1)], clock_us=0)
    assert [one.id for one in done.outputs] == ["c-0-e1"]
    assert [one.encoded_state for one in done.failures] == [b"not what it wrote"]
    assert orjson.loads(done.encoded_state or b"")["arrivals"] == [1]


@pytest.mark.parametrize("clock_us", [0, 11, 100])
def test_where_nothing_is_raised_a_careful_step_is_a_step(clock_us: int) -> None:
    events, kept = [event(3), event(1)], echoes().create_state()
    made = list(advance_operator(echoes(), ("c",), kept, events, clock_us))
    done = advance_isolating_errors(echoes(), ("c",), None, events, clock_us)
    assert done.outputs == made
    assert not done.failures
    assert done.encoded_state == (echoes().encode_state(kept) if kept["arrivals"] else None)
