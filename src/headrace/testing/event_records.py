"""Events as the raw records that a producer would send."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headrace.declare.operations.derived_stream import DerivedStream
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.testing.arrivals import Arrival
from headrace.testing.data_frames import TableRow, rows_to_events, undeclared_columns
from headrace.testing.undeclared_fields import warn_of_undeclared
from headrace.tiles.events.event_json import require_row, row_to_json
from headrace.tiles.events.event_parser import InvalidEventError, parse_event
from headrace.tiles.events.record_classification import RawRecord
from headrace.tiles.finish import to_datetime


class UnfitQuestion(HeadraceError):
    """A test gives a time, an entity or events in an invalid form."""


class _SerializedEvent(NamedTuple):
    arrival: Arrival
    value: bytes


def to_raw_records(stream: Stream, arrivals: Sequence[Arrival]) -> Iterator[tuple[Arrival, RawRecord]]:
    """Each event as displayed, and its record."""
    serialized_events = _serialize_events(stream, arrivals)
    _warn_of_undeclared_columns(stream, arrivals)
    return (
        (serialized_event.arrival, _to_raw_record(stream, serialized_event)) for serialized_event in serialized_events
    )


def _warn_of_undeclared_columns(stream: Stream, arrivals: Sequence[Arrival]) -> None:
    tables = {
        id(arrival.event.table): arrival.event.table for arrival in arrivals if isinstance(arrival.event, TableRow)
    }
    names = {name for table in tables.values() for name in undeclared_columns(table, stream)}
    warn_of_undeclared(names, f"The schema of {stream.name}", stream.schema.names)


def _serialize_events(stream: Stream, arrivals: Sequence[Arrival]) -> list[_SerializedEvent]:
    rows = iter(rows_to_events([arrival.event for arrival in arrivals if isinstance(arrival.event, TableRow)], stream))
    return [
        _serialize_row(stream, one, *next(rows))
        if isinstance(one.event, TableRow)
        else _serialize_event(stream, one, number)
        for number, one in enumerate(arrivals)
    ]


def _serialize_row(stream: Stream, arrival: Arrival, row: dict[str, Any], value: bytes) -> _SerializedEvent:
    complete_row = _add_arrival_time(stream, row)
    return _SerializedEvent(
        replace(arrival, event=row), value if complete_row is row else row_to_json(stream.schema, complete_row)
    )


def _serialize_event(stream: Stream, arrival: Arrival, number: int) -> _SerializedEvent:
    event = arrival.event
    if isinstance(event, bytes):
        return _SerializedEvent(arrival, event)
    try:
        row = _add_arrival_time(stream, require_row(stream.schema, event))
        return _SerializedEvent(arrival, row_to_json(stream.schema, row))
    except InvalidEventError as error:
        raise UnfitQuestion(f"{stream.name}: row {number}: {error}.") from None


def _add_arrival_time(stream: Stream, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of a derived stream without an arrival arrived at its own time."""
    if not isinstance(stream, DerivedStream) or stream.arrival in event or stream.time not in event:
        return event
    return {**event, str(stream.arrival): event[stream.time]}


def _to_raw_record(stream: Stream, serialized_event: _SerializedEvent) -> RawRecord:
    value, delay_us = serialized_event.value, serialized_event.arrival.delay_us
    try:
        event_arrival_us = parse_event(stream.schema, value)[stream.arrival or stream.time]
    except InvalidEventError:
        event_arrival_us = None
    if event_arrival_us is None:
        return RawRecord(value, delay_us)  # a dead letter, independent of its arrival
    arrival_us = event_arrival_us + delay_us
    if stream.arrival is not None and delay_us:
        value = json.dumps(json.loads(value) | {stream.arrival: to_datetime(arrival_us).isoformat()}).encode()
    return RawRecord(value, arrival_us)
