"""Replays a recording, in order and at a chosen speed.

recorded   10:00 ──────────── 10:10 ── 10:12 ─────────────────── 11:00
            │                    │   ╱                              │
at 600x    0 s ──────────────── 1 s ─ 1.2 s ────────────────────── 6 s   after the start
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headrace.errors import HeadraceError

_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)x", re.ASCII)


class InvalidSpeedError(HeadraceError):
    """An invalid speed."""


class RecordedEvent(NamedTuple):
    """One event of a recording: when it is due, None for at once; its record key and value."""

    due_us: int | None
    key: bytes | None
    value: bytes


@dataclass(frozen=True)
class ReplayClock:
    """A clock and a sleep that tests replace."""

    now: Callable[[], float]
    wait: Callable[[float], object]


def parse_speed(text: str) -> float | None:
    """How many recorded seconds pass in one second; None for as fast as possible.

    >>> parse_speed("10000x"), parse_speed("0.5x"), parse_speed("max")
    (10000.0, 0.5, None)
    """
    if text == "max":
        return None
    match = _SPEED.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise InvalidSpeedError(
            f'--speed {text!r} is not a speed. Write "10000x", "1x" or, as quick as it goes, "max".'
        )
    return float(match[1])


def pace_events(
    events: Iterable[RecordedEvent], speed: float | None, clock: ReplayClock, from_us: int | None = None
) -> Iterator[RecordedEvent]:
    """Each event when it is due; recorded time starts at `from_us`, or with the first event.

    Delays are relative to the start, not to the previous event, so that a delay does not add up.
    """
    started_s = clock.now()
    for event in events:
        if speed is not None and event.due_us is not None:
            from_us = event.due_us if from_us is None else from_us
            wait_s = started_s + (event.due_us - from_us) / 1e6 / speed - clock.now()
            if wait_s > 0:
                clock.wait(wait_s)
        yield event
