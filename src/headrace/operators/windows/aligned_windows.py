"""Windows aligned to multiples of a step: tumbling, sliding, and the global one.

sliding("3m", every="1m"):   an event at 12:02:30 counts in the windows that begin at 12:00, 12:01, 12:02
"""

from headrace.declare.operations import window_shapes
from headrace.operators.operator import InputEvent
from headrace.operators.windows.window_aggregates import WindowAggregator
from headrace.operators.windows.window_state import NEVER_US, WindowBounds, WindowSnapshot, WindowSpan, WindowSpans

_SINGLE_CELL = 0  # the number of a span's only cell


class AlignedWindows:
    """Windows of one length: each is a span of its own."""

    def __init__(self, shape: window_shapes.AlignedShape, aggregator: WindowAggregator) -> None:
        self._size_us, self._every_us, self._aggregator = shape.size_us, shape.every_us, aggregator

    def find_spans(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        return [spans[start_us] for start_us in self._window_starts_us(event) if start_us in spans]

    def add_event(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        return [self._add_to_window(spans, start_us, event) for start_us in self._window_starts_us(event)]

    def _window_starts_us(self, event: InputEvent) -> range:
        """The starts of an event's windows, from the first to the last."""
        return range(self._last_start_us(event), event.time_us - self._size_us, -self._every_us)[::-1]

    def _last_start_us(self, event: InputEvent) -> int:
        return event.time_us // self._every_us * self._every_us

    def _add_to_window(self, spans: WindowSpans, start_us: int, event: InputEvent) -> WindowSpan:
        span = spans.get(start_us)
        if span is None:
            end_us = start_us + self._size_us
            span = spans[start_us] = WindowSpan(start_us, end_us, {_SINGLE_CELL: self._aggregator.create_state()})
        self._aggregator.add_event(span.cells[_SINGLE_CELL], event)
        return span

    def list_windows(self, span: WindowSpan) -> list[WindowSnapshot]:
        return [WindowSnapshot((span.start_us, span.end_us), span.end_us, span.cells[_SINGLE_CELL])]

    def event_bounds(self, event: InputEvent) -> WindowBounds:
        start_us = self._last_start_us(event)
        return start_us, start_us + self._size_us

    def expire_windows(self, span: WindowSpan, before_us: int) -> bool:
        return span.end_us <= before_us

    def first_expiry_us(self, span: WindowSpan) -> int:
        return span.end_us


class GlobalWindow:
    """One window that never closes: every event counts, and nothing is removed."""

    def __init__(self, aggregator: WindowAggregator) -> None:
        self._aggregator = aggregator

    def find_spans(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:  # noqa: ARG002  # the same for all events
        return list(spans.values())

    def add_event(self, spans: WindowSpans, event: InputEvent) -> list[WindowSpan]:
        span = spans.setdefault(-NEVER_US, WindowSpan(-NEVER_US, NEVER_US))
        self._aggregator.add_event(span.cells.setdefault(_SINGLE_CELL, self._aggregator.create_state()), event)
        return [span]

    def list_windows(self, span: WindowSpan) -> list[WindowSnapshot]:
        return [WindowSnapshot((span.start_us, span.end_us), NEVER_US, span.cells[_SINGLE_CELL])]

    def event_bounds(self, event: InputEvent) -> WindowBounds:  # noqa: ARG002
        return -NEVER_US, NEVER_US

    def expire_windows(self, span: WindowSpan, before_us: int) -> bool:  # noqa: ARG002
        return False

    def first_expiry_us(self, span: WindowSpan) -> int:  # noqa: ARG002
        return NEVER_US
