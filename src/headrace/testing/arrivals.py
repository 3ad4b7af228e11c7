"""Arrival of test events: at their own time, later, earlier, duplicated, or out of order."""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.declare.durations import duration_us
from headrace.testing.data_frames import TableRow, is_data_frame, to_table_rows


@dataclass(frozen=True)
class Arrival:
    """An event that arrives later than its own time; earlier if the delay is negative.

    Its own time is its event time or, on a stream with `arrival=`, the time in that column.
    """

    event: Any
    delay_us: int = 0


EventInput = Mapping[str, Any] | bytes | Arrival | TableRow


def late(event: EventInput, *, by: str) -> Arrival:
    """The event, arriving this long after its own time."""
    return _add_delay(event, duration_us(by, "late: by"))


def early(event: EventInput, *, by: str) -> Arrival:
    """The event, arriving this long before its own time: its producer's clock is fast."""
    return _add_delay(event, -duration_us(by, "early: by"))


def duplicated(events: Iterable[EventInput], *, by: str = "1s") -> list[EventInput]:
    """Every event twice, the second time this much later."""
    return [delivery for event in iterate_events(events) for delivery in (event, late(event, by=by))]


def shuffled(events: Iterable[EventInput], *, within: str = "1m", seed: int = 0) -> list[EventInput]:
    """Every event, delayed by a random time up to a limit: out of order, and the same for the same seed."""
    generator, max_delay_us = random.Random(seed), duration_us(within, "shuffled: within")  # noqa: S311 - no secret
    return [_add_delay(event, generator.randint(0, max_delay_us)) for event in iterate_events(events)]


def iterate_events(events: Any) -> Iterator[EventInput]:
    """Each event; each row of a data frame."""
    return iter(to_table_rows(events) if is_data_frame(events) else events)


def to_arrival(event: EventInput) -> Arrival:
    """The event with its arrival: at its own time by default."""
    return event if isinstance(event, Arrival) else Arrival(event)


def _add_delay(event: EventInput, delay_us: int) -> Arrival:
    arrival = to_arrival(event)
    return replace(arrival, delay_us=arrival.delay_us + delay_us)
