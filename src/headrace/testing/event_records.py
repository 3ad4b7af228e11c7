"""Events as the raw records that a producer would send of them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headrace.declare.derivation import Derived
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.testing.arrivals import Arrival
from headrace.testing.data_frames import TableRow, events_of_rows, undeclared_in
from headrace.testing.undeclared_fields import warn_of_undeclared
from headrace.tiles.admission import Record
from headrace.tiles.event_json import json_of, require_row
from headrace.tiles.events import Unreadable, read_event
from headrace.tiles.finish import moment


class UnfitQuestion(HeadraceError):
    """A test asks for a time or an entity, or gives events, in a form that cannot be one."""


class _Written(NamedTuple):
    arrival: Arrival
    value: bytes


def records_of(stream: Stream, arrivals: Sequence[Arrival]) -> Iterator[tuple[Arrival, Record]]:
    """Each event, as it is shown, and its record."""
    written = _written(stream, arrivals)
    _warn_of_columns(stream, arrivals)
    return ((one.arrival, _record(stream, one)) for one in written)


def _warn_of_columns(stream: Stream, arrivals: Sequence[Arrival]) -> None:
    tables = {id(one.event.table): one.event.table for one in arrivals if isinstance(one.event, TableRow)}
    names = {name for table in tables.values() for name in undeclared_in(table, stream)}
    warn_of_undeclared(names, f"The schema of {stream.name}", stream.schema.names)


def _written(stream: Stream, arrivals: Sequence[Arrival]) -> list[_Written]:
    rows = iter(events_of_rows([one.event for one in arrivals if isinstance(one.event, TableRow)], stream))
    return [
        _of_row(stream, one, *next(rows)) if isinstance(one.event, TableRow) else _of_event(stream, one, number)
        for number, one in enumerate(arrivals)
    ]


def _of_row(stream: Stream, arrival: Arrival, row: dict[str, Any], value: bytes) -> _Written:
    known = _known(stream, row)
    return _Written(replace(arrival, event=row), value if known is row else json_of(stream.schema, known))


def _of_event(stream: Stream, arrival: Arrival, number: int) -> _Written:
    event = arrival.event
    if isinstance(event, bytes):
        return _Written(arrival, event)
    try:
        row = _known(stream, require_row(stream.schema, event))
        return _Written(arrival, json_of(stream.schema, row))
    except Unreadable as why:
        raise UnfitQuestion(f"{stream.name}: row {number}: {why}.") from None


def _known(stream: Stream, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event of a derived stream that does not say when it was known was known at its own time."""
    if not isinstance(stream, Derived) or stream.arrival in event or stream.time not in event:
        return event
    return {**event, str(stream.arrival): event[stream.time]}


def _record(stream: Stream, written: _Written) -> Record:
    value, delay_us = written.value, written.arrival.delay_us
    try:
        own_us = read_event(stream.schema, value)[stream.arrival or stream.time]
    except Unreadable:
        own_us = None
    if own_us is None:
        return Record(value, delay_us)  # a dead letter, whenever it arrives
    arrival_us = own_us + delay_us
    if stream.arrival is not None and delay_us:
        value = json.dumps(json.loads(value) | {stream.arrival: moment(arrival_us).isoformat()}).encode()
    return Record(value, arrival_us)
