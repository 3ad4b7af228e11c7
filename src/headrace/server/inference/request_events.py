"""Events as clients write them: parsed and checked as the gate does, whatever their time.

Usual values take a fast path; the gate's own reader parses the rest, so that both give the same result.
"""

import time
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import orjson

from headrace.declare.expressions import field_names
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.server.features.entity_keys import ValueReader, value_reader
from headrace.server.http.responses import BadRequest, PayloadTooLarge, non_finite_to_text, require_shallow_json
from headrace.tiles.events.event_parser import Event, InvalidEventError, parse_raw_json, to_event
from headrace.tiles.events.record_classification import classify_by_time, find_failed_checks

MAX_EVENTS = 1000


class EventReader:
    """Reads the events of one model's stream."""

    def __init__(self, model: Model) -> None:
        self._stream = model.stream
        self._readers = [
            (column.name, _fast_reader(column.type, value_reader(column))) for column in model.stream.schema
        ]
        self._required_columns = required_columns(model)
        self._window_columns = self._required_columns | window_columns(model)

    def parse_body(self, body: bytes, include: bool) -> tuple[list[Event], bool]:
        """The events of a body, and whether they came as a list."""
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            return self._parse_like_gate(body, include)
        items = content if type(content) is list else [content]
        require_event_limit(len(items))
        require_shallow_json(body, content)
        events = [event for item in items if (event := self._parse_fast(item, include)) is not None]
        if len(events) < len(items):
            return self._parse_like_gate(body, include)
        return self._require_valid(events), items is content

    def parse_rows(self, rows: Sequence[dict[str, Any]], include: bool) -> list[Event]:
        """Events from Python values; floats may be non-finite."""
        require_event_limit(len(rows))
        if None not in (events := [self._parse_fast(row, include) for row in rows]):
            return self._require_valid([event for event in events if event is not None])
        body = orjson.dumps([{name: _to_json_value(value) for name, value in one.items()} for one in rows])
        return self._parse_like_gate(body, include)[0]

    def arrival_us(self, event: Event, now_us: int, include: bool) -> int:
        """The arrival time of an event, at which its windows end: now, or its own."""
        arrival = self._stream.arrival
        if event[self._stream.time] is not None:
            self._require_not_late(event, now_us, include)
        return now_us if arrival is None or event[arrival] is None else int(event[arrival])

    def _require_not_late(self, event: Event, now_us: int, include: bool) -> None:
        verdict = classify_by_time(self._stream, self.fill_missing_times(event, now_us), now_us)
        if verdict.fate == "dead":
            raise BadRequest(f"The gate would refuse the event: {verdict.reason}.")
        if include and verdict.fate != "clean":
            raise BadRequest(
                f"The event is late by {self._stream.name}'s late=, and so in none of its windows. Ask without include."
            )

    def fill_missing_times(self, event: Event, now_us: int) -> Event:
        """An event with its times filled in; the default event time is now."""
        stream = self._stream
        missing = [name for name in (stream.time, stream.arrival) if name is not None and event[name] is None]
        return {**event, **dict.fromkeys(missing, now_us)} if missing else event

    def _parse_fast(self, item: Any, include: bool) -> Event | None:
        """An event whose values are all of the usual kind; None where the gate's reader is needed."""
        if type(item) is not dict or not (self._window_columns if include else self._required_columns) <= item.keys():
            return None
        event: Event = {}
        for name, read_value in self._readers:
            value = item.get(name)
            if value is not None and (value := read_value(value)) is None:
                return None
            event[name] = value
        return event

    def _parse_like_gate(self, body: bytes, include: bool) -> tuple[list[Event], bool]:
        try:
            content = parse_raw_json(body)
        except InvalidEventError as problem:
            raise BadRequest(f"The body is not JSON. Write the fields of an event: {self._example}.") from problem
        items = content if isinstance(content, list) else [content]
        require_event_limit(len(items))
        events = [
            self._parse_event(item, f"events[{index}]" if items is content else "the event", include)
            for index, item in enumerate(items)
        ]
        return self._require_valid(events), items is content

    def _parse_event(self, item: Any, label: str, include: bool) -> Event:
        if not isinstance(item, dict):
            raise BadRequest(f"{_capitalize(label)} is no object. Write its fields: {self._example}.")
        for name in sorted(self._window_columns if include else self._required_columns):
            if name not in item:
                raise BadRequest(f"{_capitalize(label)} has no {name!r}, which the model reads. Write it, or null.")
        try:
            return to_event(self._stream.schema, item)
        except InvalidEventError as problem:
            raise BadRequest(f"{_capitalize(label)} is not one of {self._stream.name}: {problem}.") from problem

    def _require_valid(self, events: list[Event]) -> list[Event]:
        stream = self._stream
        if stream.key in self._required_columns and any(event[stream.key] is None for event in events):
            raise BadRequest(f"An event's {stream.key!r} is null, and it is the key of {stream.name}. Write it.")
        if stream.check is not None and any(find_failed_checks(stream, events)):
            raise BadRequest(f"An event fails the check of {stream.name}: {stream.check}. The gate would refuse it.")
        return events

    @property
    def _example(self) -> str:
        members = ", ".join(f'"{name}": …' for name in sorted(self._required_columns))
        return f"{{{members}}}"


def required_columns(model: Model) -> frozenset[str]:
    """The columns of an event that a model reads, directly or by its views."""
    request_columns = (
        column.name.removeprefix(REQUEST_PREFIX) for view in model.views for column in view.request_columns
    )
    return frozenset([*model.fields, *request_columns, *(name for view in model.views for name in view.by)])


def window_columns(model: Model) -> frozenset[str]:
    """The columns of an event that its own windows are folded from."""
    fed_views = [view for view in model.views if model.stream in view.streams]
    return frozenset(name for view in fed_views for name in _aggregated_columns(view) if name in model.stream.schema)


def _aggregated_columns(view: View) -> Iterable[str]:
    for feature in view.features:
        aggregate = feature.aggregate
        yield from [] if aggregate.column is None else [aggregate.column]
        yield from [] if aggregate.where is None else field_names(aggregate.where)


def require_event_limit(count: int) -> None:
    """Raise PayloadTooLarge for more events than one request may have."""
    if count > MAX_EVENTS:
        raise PayloadTooLarge(f"{count} events in one request are too many. Ask for {MAX_EVENTS} at a time.")


def current_time_us() -> int:
    return time.time_ns() // 1000


def _fast_reader(column_type: str, read_value: ValueReader) -> ValueReader:
    """A fast path for a type; floats are rounded by the gate's reader alone."""
    return (lambda _: None) if column_type == "float" else read_value


def _to_json_value(value: Any) -> Any:
    """A value as the gate reads it: JSON has no NaN and no infinities."""
    return non_finite_to_text(value) if isinstance(value, float) and not isfinite(value) else value


def _capitalize(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
