"""The gate's classification in plain Python: each record is clean, late, dropped, or dead with a reason.

    not JSON? ─▶ wrong type? ─▶ id, key, time missing? ─▶ check failed? ─▶ too far ahead? ─▶ late? ─▶ clean
        └────────────┴──────────────────┴─────────────────────┴─────────────────┘    │
                                      dead                                  late or dropped

It gives exactly the same results as the gate's Spark query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace.aggregates.value_columns import Mask, to_value_column
from headrace.declare.durations import duration_text
from headrace.declare.expressions import field_names
from headrace.declare.streams.stream import Stream
from headrace.tiles.events.event_parser import Event, InvalidEventError, parse_event
from headrace.tiles.events.expression_kernel import evaluate

Fate = Literal["clean", "late", "dropped", "dead"]


class RawRecord(NamedTuple):
    """A raw record: its bytes and append time; a stream with `arrival=` does not use the latter."""

    value: bytes | None
    arrival_us: int


@dataclass(frozen=True, slots=True)
class ClassificationResult:
    """The fate of a record, and the reason if it is dead; the event is set if it could be read."""

    fate: Fate
    event: Event | None
    reason: str | None = None


def classify_records(stream: Stream, records: Sequence[RawRecord]) -> list[ClassificationResult]:
    """Classify each record as the gate does."""
    parsed = [_parse_record(stream, record) for record in records]
    failed = iter(find_failed_checks(stream, [event for event in parsed if isinstance(event, dict)]))
    return [
        _classify(stream, event, bool(next(failed)), record.arrival_us)
        if isinstance(event, dict)
        else ClassificationResult("dead", None, str(event))
        for event, record in zip(parsed, records, strict=True)
    ]


def _parse_record(stream: Stream, record: RawRecord) -> Event | InvalidEventError:
    try:
        return parse_event(stream.schema, record.value)
    except InvalidEventError as reason:
        return reason


def find_failed_checks(stream: Stream, events: Sequence[Event]) -> Mask | list[bool]:
    """Where the check is false; null passes."""
    if stream.check is None:
        return [False] * len(events)
    columns = {
        name: to_value_column([event[name] for event in events], stream.schema.column(name, "check").kind)
        for name in field_names(stream.check)
    }
    result = evaluate(stream.check, columns, len(events))
    return result.valid & ~result.data


def _classify(stream: Stream, event: Event, has_failed_check: bool, appended_us: int) -> ClassificationResult:
    for column_role, column in stream.required_columns.items():
        if event[column] is None:
            return ClassificationResult("dead", event, f"missing-{column_role}: column {column} is absent or null")
    if has_failed_check:
        return ClassificationResult("dead", event, f"failed-check: {stream.check}")
    return classify_by_time(stream, event, appended_us)


def classify_by_time(stream: Stream, event: Event, appended_us: int) -> ClassificationResult:
    """Classify an event that is valid except for its time."""
    arrival_us = appended_us if stream.arrival is None else event[stream.arrival]
    lateness_us = arrival_us - event[stream.time]
    if lateness_us < -stream.ahead_us:
        return _reject_too_far_ahead(stream, event, f"column {stream.time}", "its arrival")
    if arrival_us - appended_us > stream.ahead_us:
        return _reject_too_far_ahead(stream, event, f"column {stream.arrival}", "the log took it")
    if lateness_us > stream.late.until_us:
        return ClassificationResult("dropped" if stream.late.then == "drop" else "late", event)
    return ClassificationResult("clean", event)


def _reject_too_far_ahead(stream: Stream, event: Event, subject: str, reference: str) -> ClassificationResult:
    limit = duration_text(stream.ahead_us)
    return ClassificationResult("dead", event, f"too-far-ahead: {subject} is more than {limit} after {reference}")
