"""Session windows: an event extends its session by its gap, and overlapping sessions merge.

    ●──────┤                 gap of the first
         ●──────┤            touches it: one session      ├●────●──────┤
                     ●──────┤   does not: another                          ├●──────┤

An event between two sessions merges them. A session longer than `longest` is emitted in pieces, cut at multiples of
that length: each piece has its own state from the start, so that no state has to be split.

    longest  │             │             │
             │  ●─●──●──●──│─●──●─────●──│─●──┤       longer: three windows
             │          ●──│──●──┤       │            not longer: one window, although it has two cells
"""

import math

from headrace.declare.operations.window_shapes import Session
from headrace.operators.operator import InputEvent
from headrace.operators.windows.window_aggregates import WindowAggregateState, WindowAggregator
from headrace.operators.windows.window_state import WindowBounds, WindowSnapshot, WindowSpan, WindowSpans

_SECOND_US = 1_000_000
_END_INCLUSIVE_US = 1  # an event at the very end of a session belongs to it


class SessionWindows:
    """The sessions of a key: each is a span, in cells of the maximum length."""

    def __init__(self, shape: Session, aggregator: WindowAggregator) -> None:
        self._gap_us, self._gap_column, self._max_session_us = shape.gap_us or 0, shape.gap_column, shape.longest_us
        self._aggregator = aggregator

    def add_event(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        start_us, end_us = self.event_bounds(event)
        overlapping = self.find_spans(spans, event)
        for span in overlapping:
            del spans[span.start_us]
        span = self._merge_spans(WindowSpan(start_us, end_us), overlapping)
        cell = self._cell_number(event.time_us)
        self._aggregator.add_event(span.cells.setdefault(cell, self._aggregator.create_state()), event)
        spans[span.start_us] = span
        return [span]

    def event_bounds(self, event: InputEvent) -> WindowBounds:
        return event.time_us, event.time_us + self._event_gap_us(event)

    def _event_gap_us(self, event: InputEvent) -> int:
        """The gap of an event: at least one microsecond, at most the maximum length."""
        if self._gap_column is None:
            return self._gap_us
        seconds = event.values[self._gap_column]
        max_session_us = self._max_session_us or 0
        if seconds is None or math.isnan(seconds) or seconds <= 0:
            return 1
        return max_session_us if seconds * _SECOND_US >= max_session_us else max(1, round(seconds * _SECOND_US))

    def find_spans(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        start_us, end_us = self.event_bounds(event)
        return [span for span in spans.values() if span.start_us <= end_us and start_us <= span.end_us]

    def _merge_spans(self, merged: WindowSpan, overlapping: list[WindowSpan]) -> WindowSpan:
        """Merge overlapping spans."""
        for span in overlapping:
            merged.start_us, merged.end_us = min(merged.start_us, span.start_us), max(merged.end_us, span.end_us)
            merged.late_count += span.late_count
            merged.emitted_rows += span.emitted_rows
            merged.emit_timer_us = span.emit_timer_us if merged.emit_timer_us is None else merged.emit_timer_us
            for cell, state in span.cells.items():
                merged.cells[cell] = (
                    self._aggregator.merge_states(merged.cells[cell], state) if cell in merged.cells else state
                )
        return merged

    def _cell_number(self, time_us: int) -> int:
        return 0 if self._max_session_us is None else time_us // self._max_session_us

    def list_windows(self, span: WindowSpan) -> list[WindowSnapshot]:
        if not self._is_cut(span):
            states = list(span.cells.values())
            merged = states[0] if len(states) == 1 else self._aggregator.merge_states(*states)
            return [WindowSnapshot((span.start_us, span.end_us), span.end_us + _END_INCLUSIVE_US, merged)]
        return [self._piece_window(span, cell, span.cells[cell]) for cell in sorted(span.cells)]

    def _is_cut(self, span: WindowSpan) -> bool:
        return self._max_session_us is not None and span.end_us - span.start_us > self._max_session_us

    def _piece_window(self, span: WindowSpan, cell: int, state: WindowAggregateState) -> WindowSnapshot:
        """A window of a long session: that it is long is known only after the maximum length."""
        length_us = self._max_session_us or 0
        start_us, end_us = max(span.start_us, cell * length_us), min(span.end_us, (cell + 1) * length_us)
        closes_us = max(end_us, span.start_us + length_us) + _END_INCLUSIVE_US
        return WindowSnapshot((start_us, end_us), closes_us, state)

    def expire_windows(self, span: WindowSpan, before_us: int) -> bool:
        """Pieces expire one by one; a span keeps its start for as long as it may continue."""
        if self._is_cut(span):
            for cell in [
                cell for cell in span.cells if self._piece_window(span, cell, span.cells[cell]).closes_us <= before_us
            ]:
                expired = self._piece_window(span, cell, span.cells.pop(cell))
                span.emitted_rows = [row for row in span.emitted_rows if row.bounds != expired.bounds]
        return span.end_us + _END_INCLUSIVE_US <= before_us

    def first_expiry_us(self, span: WindowSpan) -> int:
        closings_us = (
            [self._piece_window(span, cell, span.cells[cell]).closes_us for cell in span.cells]
            if self._is_cut(span)
            else []
        )
        return min([*closings_us, span.end_us + _END_INCLUSIVE_US])
