"""How every operator takes events and advances time."""

import json
from collections.abc import Iterator

import pytest

from headrace.operators.operator import InputEvent, Key, OutputEvent, advance_operator


class Told:
    """Emits each event when it is taken, and again ten microseconds after its arrival."""

    def create_state(self) -> list[int]:
        return []

    def process_event(self, key: Key, kept: list[int], event: InputEvent) -> Iterator[OutputEvent]:
        kept.append(event.arrival_us + 10)
        yield OutputEvent("taken", str(event.id), event.time_us, event.arrival_us, {"key": key[0]})

    def next_timer_us(self, kept: list[int]) -> int | None:
        return min(kept, default=None)

    def on_timer(self, key: Key, kept: list[int], at_us: int) -> Iterator[OutputEvent]:
        kept.remove(at_us)
        yield OutputEvent("woken", f"{at_us}", at_us, at_us, {"key": key[0]})

    def encode_state(self, kept: list[int]) -> bytes:
        return json.dumps(kept).encode()

    def decode_state(self, packed: bytes) -> list[int]:
        return list(json.loads(packed))


class Sleepless(Told):
    """Wants to be woken at the time it is woken at."""

    def on_timer(self, key: Key, kept: list[int], at_us: int) -> Iterator[OutputEvent]:
        yield from ()


def event(arrival_us: int, **more: int) -> InputEvent:
    said = {"input_index": 0, "id": arrival_us, "time_us": 0, "partition": 0, "offset": 0} | more
    return InputEvent(arrival_us=arrival_us, values={}, **said)


def test_events_are_taken_as_they_arrived_and_then_time_passes() -> None:
    operator, kept = Told(), Told().create_state()
    made = list(advance_operator(operator, ("k",), kept, [event(30), event(20)], clock_us=30))
    assert [(one.output, one.id) for one in made] == [("taken", "20"), ("taken", "30"), ("woken", "30")]
    assert kept == [40]


def test_of_events_that_arrived_together_their_place_decides() -> None:
    together = [event(5, id=1, partition=1), event(5, id=2, input_index=1), event(5, id=3, offset=1), event(5, id=4)]
    made = advance_operator(Told(), ("k",), [], together, clock_us=0)
    assert [one.id for one in made] == ["4", "3", "1", "2"]


def test_who_would_be_woken_for_ever_is_named() -> None:
    with pytest.raises(AssertionError, match="Sleepless ran its timer at 15"):
        list(advance_operator(Sleepless(), ("k",), [], [event(5)], clock_us=20))
