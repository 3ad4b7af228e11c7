"""The gate's judgement in plain Python: each record is clean, late, dropped, or dead with a reason.

    not JSON? ─▶ wrong type? ─▶ id, key, time missing? ─▶ check failed? ─▶ too far ahead? ─▶ late? ─▶ clean
        └────────────┴──────────────────┴─────────────────────┴─────────────────┘    │
                                      dead                                  late or dropped

It says the same as the Spark query of the gate, word for word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.declare.durations import duration_text
from headrace.declare.expressions import fields
from headrace.declare.stream import Stream
from headrace.tiles.columns import Mask, values_of
from headrace.tiles.events import Event, Unreadable, read_event
from headrace.tiles.expressions import evaluate

Fate = Literal["clean", "late", "dropped", "dead"]


class Record(NamedTuple):
    """A raw record: its bytes, and when the log took it, which a stream with `arrival=` does not go by."""

    value: bytes | None
    arrival_us: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a record, and why if it is dead; the event is there where it could be read."""

    fate: Fate
    event: Event | None
    reason: str | None = None


def admit(stream: Stream, records: Sequence[Record]) -> list[Verdict]:
    """The gate's verdict on each record."""
    read = [_read(stream, record) for record in records]
    failed = iter(failed_check(stream, [event for event in read if isinstance(event, dict)]))
    return [
        _judged(stream, event, bool(next(failed)), record.arrival_us)
        if isinstance(event, dict)
        else Verdict("dead", None, str(event))
        for event, record in zip(read, records, strict=True)
    ]


def _read(stream: Stream, record: Record) -> Event | Unreadable:
    try:
        return read_event(stream.schema, record.value)
    except Unreadable as reason:
        return reason


def failed_check(stream: Stream, events: Sequence[Event]) -> Mask | list[bool]:
    """Where the check is false; null passes."""
    if stream.check is None:
        return [False] * len(events)
    columns = {
        name: values_of([event[name] for event in events], stream.schema.column(name, "check").kind)
        for name in fields(stream.check)
    }
    passed = evaluate(stream.check, columns, len(events))
    return passed.valid & ~passed.data


def _judged(stream: Stream, event: Event, failed_check: bool, appended_us: int) -> Verdict:
    for part, column in stream.needed.items():
        if event[column] is None:
            return Verdict("dead", event, f"missing-{part}: column {column} is absent or null")
    if failed_check:
        return Verdict("dead", event, f"failed-check: {stream.check}")
    return timed(stream, event, appended_us)


def timed(stream: Stream, event: Event, appended_us: int) -> Verdict:
    """The verdict on an event that is fit in all but its time."""
    arrival_us = appended_us if stream.arrival is None else event[stream.arrival]
    lateness_us = arrival_us - event[stream.time]
    if lateness_us < -stream.ahead_us:
        return _too_far_ahead(stream, event, f"column {stream.time}", "its arrival")
    if arrival_us - appended_us > stream.ahead_us:
        return _too_far_ahead(stream, event, f"column {stream.arrival}", "the log took it")
    if lateness_us > stream.late.until_us:
        return Verdict("dropped" if stream.late.then == "drop" else "late", event)
    return Verdict("clean", event)


def _too_far_ahead(stream: Stream, event: Event, what: str, than: str) -> Verdict:
    ahead = duration_text(stream.ahead_us)
    return Verdict("dead", event, f"too-far-ahead: {what} is more than {ahead} after {than}")
