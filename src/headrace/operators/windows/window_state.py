"""The state of a key's windows: spans of time with aggregates, and the rows emitted for them."""

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
    """A row emitted for a window; a retracted one is kept until it is replaced."""

    bounds: WindowBounds
    revision: int
    is_final: bool
    event_count: int
    time_us: int
    values: ResultValues
    is_current: bool = True


class WindowSnapshot(NamedTuple):
    """The current window; no event before `closes_us` is missing once all events before that time are here."""

    bounds: WindowBounds
    closes_us: int
    state: WindowAggregateState


@dataclass
class WindowSpan:
    """A span of a key's time: its aggregates, in cells where it may be cut, and its emitted rows."""

    start_us: int
    end_us: int
    cells: dict[int, WindowAggregateState] = field(default_factory=dict)
    emitted_rows: list[EmittedWindowRow] = field(default_factory=list)
    late_count: int = 0  # late rows that no closing row has reported
    emit_timer_us: int | None = None  # when to emit changes since the last emission
    next_timer_us: int = NEVER_US  # the earliest timer of the span


WindowSpans = dict[int, WindowSpan]  # by their start


@dataclass
class WindowOperatorState:
    """The state of a key: its spans, and events that wait for timers due before their arrival."""

    spans: WindowSpans = field(default_factory=dict)
    waiting_events: list[InputEvent] = field(default_factory=list)

    @property
    def next_timer_us(self) -> int | None:
        return min([span.next_timer_us for span in self.spans.values()], default=None)


class WindowAssigner(Protocol):
    """Assigns events to windows."""

    def find_spans(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        """The existing spans in which an event would count."""
        ...

    def add_event(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        """The spans of an event, updated with the event."""
        ...

    def list_windows(self, span: WindowSpan) -> list[WindowSnapshot]:
        """The windows of a span."""
        ...

    def event_bounds(self, event: InputEvent) -> WindowBounds:
        """The window of an event alone, the last of several."""
        ...

    def expire_windows(self, span: WindowSpan, before_us: int) -> bool:
        """Remove what closes by a time; returns whether the span is empty."""
        ...

    def first_expiry_us(self, span: WindowSpan) -> int:
        """When the first remaining part of a span closes."""
        ...


class WindowStateCodec:
    """Encodes the state as JSON, and decodes it."""

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
