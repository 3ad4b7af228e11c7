"""What is kept of a key's windows: stretches of its time, what they have, and what was told of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from headrace.aggregates.json_values import from_json_value, to_json_value
from headrace.declare.features.windows import FOREVER_US
from headrace.declare.streams.schema import Schema
from headrace.operators.operator import InputEvent
from headrace.operators.windows.window_aggregates import ResultValues, WindowAggregateState, WindowAggregator

NEVER_US = FOREVER_US
WindowBounds = tuple[int, int]


class EmittedWindowRow(NamedTuple):
    """A row that was told of a window; one that was taken back is remembered until another takes its place."""

    bounds: WindowBounds
    revision: int
    is_final: bool
    event_count: int
    time_us: int
    values: ResultValues
    is_current: bool = True


class WindowSnapshot(NamedTuple):
    """A window as it is now; no event before `closes_us` is missing once all are here that happened before it."""

    bounds: WindowBounds
    closes_us: int
    state: WindowAggregateState


@dataclass
class WindowSpan:
    """A stretch of a key's time: what it has, in cells where it may be cut, and what was told of it."""

    start_us: int
    end_us: int
    cells: dict[int, WindowAggregateState] = field(default_factory=dict)
    emitted_rows: list[EmittedWindowRow] = field(default_factory=list)
    late_count: int = 0  # rows that came too late for it, and that no closing has told of
    emit_timer_us: int | None = None  # when to tell what has changed since it was told
    next_timer_us: int = NEVER_US  # when there is something to do with it


WindowSpans = dict[int, WindowSpan]  # by their start


@dataclass
class WindowOperatorState:
    """What is kept of a key: its spans, and events that wait for what was due before they arrived."""

    spans: WindowSpans = field(default_factory=dict)
    waiting_events: list[InputEvent] = field(default_factory=list)

    @property
    def next_timer_us(self) -> int | None:
        return min([span.next_timer_us for span in self.spans.values()], default=None)


class WindowAssigner(Protocol):
    """Which windows an event counts in."""

    def find_spans(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        """The spans there are that an event would count in."""
        ...

    def add_event(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        """The spans that an event counts in, with the event."""
        ...

    def list_windows(self, span: WindowSpan) -> list[WindowSnapshot]:
        """The windows that a span is."""
        ...

    def event_bounds(self, event: InputEvent) -> WindowBounds:
        """The window that an event would have alone, the last of several."""
        ...

    def expire_windows(self, span: WindowSpan, before_us: int) -> bool:
        """Let go of what closes by a time; whether nothing more of it is needed."""
        ...

    def first_expiry_us(self, span: WindowSpan) -> int:
        """What of a span closes first of all that it still has."""
        ...


class WindowStateCodec:
    """What is kept, as JSON and back."""

    def __init__(self, aggregator: WindowAggregator, schema: Schema) -> None:
        self._aggregator, self._schema = aggregator, schema

    def encode(self, state: WindowOperatorState) -> bytes:
        spans = [self._encode_span(span) for span in state.spans.values()]
        return orjson.dumps([spans, [self._encode_event(event) for event in state.waiting_events]])

    def decode(self, encoded: bytes) -> WindowOperatorState:
        encoded_spans, waiting_events = orjson.loads(encoded)
        spans = [self._decode_span(encoded_span) for encoded_span in encoded_spans]
        return WindowOperatorState({span.start_us: span for span in spans}, list(self._decode_events(waiting_events)))

    def _encode_span(self, span: WindowSpan) -> list[Any]:
        cells = [[cell, *self._aggregator.encode_state(state)] for cell, state in span.cells.items()]
        emitted_rows = [
            [*row[:-2], self._aggregator.encode_results(row.values), row.is_current] for row in span.emitted_rows
        ]
        return [
            span.start_us,
            span.end_us,
            cells,
            emitted_rows,
            span.late_count,
            span.emit_timer_us,
            span.next_timer_us,
        ]

    def _decode_span(self, encoded: list[Any]) -> WindowSpan:
        start_us, end_us, encoded_cells, encoded_rows, *rest = encoded
        cells = {cell: self._aggregator.decode_state(encoded_state) for cell, *encoded_state in encoded_cells}
        return WindowSpan(
            start_us, end_us, cells, [self._decode_emitted_row(encoded_row) for encoded_row in encoded_rows], *rest
        )

    def _decode_emitted_row(self, encoded: list[Any]) -> EmittedWindowRow:
        (start_us, end_us), revision, is_final, event_count, time_us, encoded_results, is_current = encoded
        results = self._aggregator.decode_results(encoded_results)
        return EmittedWindowRow((start_us, end_us), revision, is_final, event_count, time_us, results, is_current)

    def _encode_event(self, event: InputEvent) -> list[Any]:
        return [*event[:-1], {name: to_json_value(value) for name, value in event.values.items()}]

    def _decode_events(self, encoded: Iterable[list[Any]]) -> Iterator[InputEvent]:
        for event in encoded:
            values = {column.name: from_json_value(event[-1].get(column.name), column.kind) for column in self._schema}
            yield InputEvent._make([*event[:-1], values])
