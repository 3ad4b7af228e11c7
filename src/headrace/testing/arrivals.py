"""When events arrive: at their own time, later, earlier, twice, or out of order."""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.declare.durations import duration_us
from headrace.testing.data_frames import TableRow, is_data_frame, rows_of


@dataclass(frozen=True)
class Arrival:
    """An event that does not arrive at its own time, but so much later; earlier if below zero.

    Its own time is its event time or, on a stream with `arrival=`, what that column says.
    """

    event: Any
    delay_us: int = 0


Given = Mapping[str, Any] | bytes | Arrival | TableRow


def late(event: Given, *, by: str) -> Arrival:
    """The event, arriving so long after its own time."""
    return _delayed(event, duration_us(by, "late: by"))


def early(event: Given, *, by: str) -> Arrival:
    """The event, arriving so long before its own time: its producer's clock is ahead."""
    return _delayed(event, -duration_us(by, "early: by"))


def duplicated(events: Iterable[Given], *, by: str = "1s") -> list[Given]:
    """Every event, and once more so much later."""
    return [again for event in each_of(events) for again in (event, late(event, by=by))]


def shuffled(events: Iterable[Given], *, within: str = "1m", seed: int = 0) -> list[Given]:
    """Every event, delayed at random up to a time: they arrive out of order, the same for the same seed."""
    chance, longest_us = random.Random(seed), duration_us(within, "shuffled: within")  # noqa: S311 - no secret
    return [_delayed(event, chance.randint(0, longest_us)) for event in each_of(events)]


def each_of(events: Any) -> Iterator[Given]:
    """Each event; of a data frame, each row."""
    return iter(rows_of(events) if is_data_frame(events) else events)


def arrival_of(event: Given) -> Arrival:
    """The event as it arrives: at its own time, where nothing else is said."""
    return event if isinstance(event, Arrival) else Arrival(event)


def _delayed(event: Given, delay_us: int) -> Arrival:
    given = arrival_of(event)
    return replace(given, delay_us=given.delay_us + delay_us)
