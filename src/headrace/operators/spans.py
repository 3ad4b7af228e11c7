"""What is kept of a key's windows: stretches of its time, what they have, and what was told of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from headrace.declare.schema import Schema
from headrace.declare.windows import FOREVER_US
from headrace.operators.operator import Arrived
from headrace.operators.plain import from_plain, plain
from headrace.operators.tallies import Tallies, Tally, Values

NEVER_US = FOREVER_US
Bounds = tuple[int, int]


class Told(NamedTuple):
    """A row that was told of a window; one that was taken back is remembered until another takes its place."""

    bounds: Bounds
    revision: int
    is_final: bool
    events: int
    time_us: int
    values: Values
    stands: bool = True


class Window(NamedTuple):
    """A window as it is now; no event before `closes_us` is missing once all are here that happened before it."""

    bounds: Bounds
    closes_us: int
    tally: Tally


@dataclass
class Span:
    """A stretch of a key's time: what it has, in cells where it may be cut, and what was told of it."""

    start_us: int
    end_us: int
    cells: dict[int, Tally] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    late: int = 0  # rows that came too late for it, and that no closing has told of
    tick_us: int | None = None  # when to tell what has changed since it was told
    due_us: int = NEVER_US  # when there is something to do with it


Spans = dict[int, Span]  # by their start


@dataclass
class Kept:
    """What is kept of a key: its spans, and events that wait for what was due before they arrived."""

    spans: Spans = field(default_factory=dict)
    waiting: list[Arrived] = field(default_factory=list)

    @property
    def due_us(self) -> int | None:
        return min([span.due_us for span in self.spans.values()], default=None)


class Shape(Protocol):
    """Which windows an event counts in."""

    def met(self, spans: Spans, event: Arrived) -> list[Span]:
        """The spans there are that an event would count in."""
        ...

    def reached(self, spans: Spans, event: Arrived) -> list[Span]:
        """The spans that an event counts in, with the event."""
        ...

    def windows(self, span: Span) -> list[Window]:
        """The windows that a span is."""
        ...

    def own(self, event: Arrived) -> Bounds:
        """The window that an event would have alone, the last of several."""
        ...

    def forget(self, span: Span, before_us: int) -> bool:
        """Let go of what closes by a time; whether nothing more of it is needed."""
        ...

    def forgets_us(self, span: Span) -> int:
        """What of a span closes first of all that it still has."""
        ...


class Packer:
    """What is kept, as JSON and back."""

    def __init__(self, tallies: Tallies, schema: Schema) -> None:
        self._tallies, self._schema = tallies, schema

    def packed(self, kept: Kept) -> bytes:
        spans = [self._span(span) for span in kept.spans.values()]
        return orjson.dumps([spans, [self._event(event) for event in kept.waiting]])

    def unpacked(self, packed: bytes) -> Kept:
        spans, waiting = orjson.loads(packed)
        read = [self._read_span(written) for written in spans]
        return Kept({span.start_us: span for span in read}, list(self._read_events(waiting)))

    def _span(self, span: Span) -> list[Any]:
        cells = [[cell, *self._tallies.packed(tally)] for cell, tally in span.cells.items()]
        told = [[*one[:-2], self._tallies.packed_values(one.values), one.stands] for one in span.told]
        return [span.start_us, span.end_us, cells, told, span.late, span.tick_us, span.due_us]

    def _read_span(self, written: list[Any]) -> Span:
        start_us, end_us, cells, told, *rest = written
        tallies = {cell: self._tallies.unpacked(tally) for cell, *tally in cells}
        return Span(start_us, end_us, tallies, [self._read_told(one) for one in told], *rest)

    def _read_told(self, written: list[Any]) -> Told:
        (start_us, end_us), revision, is_final, events, time_us, values, stands = written
        read = self._tallies.unpacked_values(values)
        return Told((start_us, end_us), revision, is_final, events, time_us, read, stands)

    def _event(self, event: Arrived) -> list[Any]:
        return [*event[:-1], {name: plain(value) for name, value in event.values.items()}]

    def _read_events(self, written: Iterable[list[Any]]) -> Iterator[Arrived]:
        for event in written:
            values = {one.name: from_plain(event[-1].get(one.name), one.kind) for one in self._schema}
            yield Arrived._make([*event[:-1], values])
