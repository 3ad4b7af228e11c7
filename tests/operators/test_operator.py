"""How events are taken and time passes, whatever the operator."""

import json
from collections.abc import Iterator

import pytest

from headrace.operators.operator import Arrived, Key, Made, step


class Told:
    """Tells of each event when it is taken, and again ten microseconds after it arrived."""

    def begin(self) -> list[int]:
        return []

    def take(self, key: Key, kept: list[int], event: Arrived) -> Iterator[Made]:
        kept.append(event.arrival_us + 10)
        yield Made("taken", str(event.id), event.time_us, event.arrival_us, {"key": key[0]})

    def due_us(self, kept: list[int]) -> int | None:
        return min(kept, default=None)

    def wake(self, key: Key, kept: list[int], at_us: int) -> Iterator[Made]:
        kept.remove(at_us)
        yield Made("woken", f"{at_us}", at_us, at_us, {"key": key[0]})

    def packed(self, kept: list[int]) -> bytes:
        return json.dumps(kept).encode()

    def unpacked(self, packed: bytes) -> list[int]:
        return list(json.loads(packed))


class Sleepless(Told):
    """Wants to be woken at the time it is woken at."""

    def wake(self, key: Key, kept: list[int], at_us: int) -> Iterator[Made]:
        yield from ()


def event(arrival_us: int, **more: int) -> Arrived:
    said = {"source": 0, "id": arrival_us, "time_us": 0, "partition": 0, "offset": 0} | more
    return Arrived(arrival_us=arrival_us, values={}, **said)


def test_events_are_taken_as_they_arrived_and_then_time_passes() -> None:
    operator, kept = Told(), Told().begin()
    made = list(step(operator, ("k",), kept, [event(30), event(20)], clock_us=30))
    assert [(one.output, one.id) for one in made] == [("taken", "20"), ("taken", "30"), ("woken", "30")]
    assert kept == [40]


def test_of_events_that_arrived_together_their_place_decides() -> None:
    together = [event(5, id=1, partition=1), event(5, id=2, source=1), event(5, id=3, offset=1), event(5, id=4)]
    made = step(Told(), ("k",), [], together, clock_us=0)
    assert [one.id for one in made] == ["4", "3", "1", "2"]


def test_who_would_be_woken_for_ever_is_named() -> None:
    with pytest.raises(AssertionError, match="Sleepless was woken at 15"):
        list(step(Sleepless(), ("k",), [], [event(5)], clock_us=20))
