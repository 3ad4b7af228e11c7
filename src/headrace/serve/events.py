"""Events as clients write them: typed and checked as the gate would, whatever their time.

What is written in the usual way is read quickly; the rest, by the gate's own reader, so that both say the same.
"""

import time
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import orjson

from headrace.declare.expressions import fields
from headrace.declare.model import Model
from headrace.declare.operands import REQUEST
from headrace.declare.views import View
from headrace.serve.answers import BadRequest, TooLarge, not_finite, require_shallow
from headrace.serve.keys import Read, reader_of
from headrace.tiles.admission import failed_check, timed
from headrace.tiles.events import Event, Unreadable, as_written, event_of

MOST_EVENTS = 1000


class EventReader:
    """Reads the events of one model's stream."""

    def __init__(self, model: Model) -> None:
        self._stream = model.stream
        self._readers = [(column.name, _quick(column.type, reader_of(column))) for column in model.stream.schema]
        self._needed = needed_by(model)
        self._folded = self._needed | folded_by(model)

    def read(self, body: bytes, include: bool) -> tuple[list[Event], bool]:
        """The events of a body, and whether they came in a list."""
        try:
            written = orjson.loads(body)
        except orjson.JSONDecodeError:
            return self._as_the_gate(body, include)
        listed = written if type(written) is list else [written]
        require_few(len(listed))
        require_shallow(body, written)
        events = [event for one in listed if (event := self._quickly(one, include)) is not None]
        if len(events) < len(listed):
            return self._as_the_gate(body, include)
        return self._checked(events), listed is written

    def checked(self, written: Sequence[dict[str, Any]], include: bool) -> list[Event]:
        """Events that came as values of Python; floats may be non-finite."""
        require_few(len(written))
        if None not in (events := [self._quickly(one, include) for one in written]):
            return self._checked([event for event in events if event is not None])
        body = orjson.dumps([{name: _in_json(value) for name, value in one.items()} for one in written])
        return self._as_the_gate(body, include)[0]

    def arrival_us(self, event: Event, now_us: int, include: bool) -> int:
        """When an event arrives, which is when its windows end: now, or when it says itself."""
        arrival = self._stream.arrival
        if event[self._stream.time] is not None:
            self._require_timely(event, now_us, include)
        return now_us if arrival is None or event[arrival] is None else int(event[arrival])

    def _require_timely(self, event: Event, now_us: int, include: bool) -> None:
        verdict = timed(self._stream, self.completed(event, now_us), now_us)
        if verdict.fate == "dead":
            raise BadRequest(f"The gate would refuse the event: {verdict.reason}.")
        if include and verdict.fate != "clean":
            raise BadRequest(
                f"The event is late by {self._stream.name}'s late=, and so in none of its windows. Ask without include."
            )

    def completed(self, event: Event, now_us: int) -> Event:
        """An event with its times: one that says none happens now."""
        stream = self._stream
        missing = [name for name in (stream.time, stream.arrival) if name is not None and event[name] is None]
        return {**event, **dict.fromkeys(missing, now_us)} if missing else event

    def _quickly(self, written: Any, include: bool) -> Event | None:
        """An event in which everything is as it usually is; None where the gate's reader has to look."""
        if type(written) is not dict or not (self._folded if include else self._needed) <= written.keys():
            return None
        event: Event = {}
        for name, read in self._readers:
            value = written.get(name)
            if value is not None and (value := read(value)) is None:
                return None
            event[name] = value
        return event

    def _as_the_gate(self, body: bytes, include: bool) -> tuple[list[Event], bool]:
        try:
            written = as_written(body)
        except Unreadable as problem:
            raise BadRequest(f"The body is not JSON. Write the fields of an event: {self._example}.") from problem
        listed = written if isinstance(written, list) else [written]
        require_few(len(listed))
        events = [
            self._event(one, f"events[{place}]" if listed is written else "the event", include)
            for place, one in enumerate(listed)
        ]
        return self._checked(events), listed is written

    def _event(self, written: Any, where: str, include: bool) -> Event:
        if not isinstance(written, dict):
            raise BadRequest(f"{_capital(where)} is no object. Write its fields: {self._example}.")
        for name in sorted(self._folded if include else self._needed):
            if name not in written:
                raise BadRequest(f"{_capital(where)} has no {name!r}, which the model reads. Write it, or null.")
        try:
            return event_of(self._stream.schema, written)
        except Unreadable as problem:
            raise BadRequest(f"{_capital(where)} is not one of {self._stream.name}: {problem}.") from problem

    def _checked(self, events: list[Event]) -> list[Event]:
        stream = self._stream
        if stream.key in self._needed and any(event[stream.key] is None for event in events):
            raise BadRequest(f"An event's {stream.key!r} is null, and it is the key of {stream.name}. Write it.")
        if stream.check is not None and any(failed_check(stream, events)):
            raise BadRequest(f"An event fails the check of {stream.name}: {stream.check}. The gate would refuse it.")
        return events

    @property
    def _example(self) -> str:
        named = ", ".join(f'"{name}": …' for name in sorted(self._needed))
        return f"{{{named}}}"


def needed_by(model: Model) -> frozenset[str]:
    """The columns of an event that a model reads, itself or by its views."""
    asked = (column.name.removeprefix(REQUEST) for view in model.views for column in view.requested)
    return frozenset([*model.fields, *asked, *(name for view in model.views for name in view.by)])


def folded_by(model: Model) -> frozenset[str]:
    """The columns of an event that its own windows are folded from."""
    fed = [view for view in model.views if model.stream in view.streams]
    return frozenset(name for view in fed for name in _folded_columns(view) if name in model.stream.schema)


def _folded_columns(view: View) -> Iterable[str]:
    for feature in view.features:
        aggregate = feature.aggregate
        yield from [] if aggregate.column is None else [aggregate.column]
        yield from [] if aggregate.where is None else fields(aggregate.where)


def require_few(count: int) -> None:
    """Raise TooLarge for more events than one request may have."""
    if count > MOST_EVENTS:
        raise TooLarge(f"{count} events in one request are too many. Ask for {MOST_EVENTS} at a time.")


def now_us() -> int:
    return time.time_ns() // 1000


def _quick(column_type: str, read: Read) -> Read:
    """Floats are rounded by the gate's reader alone."""
    return (lambda _: None) if column_type == "float" else read


def _in_json(value: Any) -> Any:
    """A value as the gate reads it: JSON has no word for NaN and the infinities."""
    return not_finite(value) if isinstance(value, float) and not isfinite(value) else value


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
