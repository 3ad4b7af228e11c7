"""The window operator, for windows of every shape: assigns events to spans, closes, emits and removes windows.

    event time        end       + after            + until
    ├──── window ─────┤─────────┤──────────────────┤
    clock                       closes: a row      removed
    an event, late by           ≤ after: counts    ≤ until, then="update": corrects     more: late

An event of a window with a timer due before its arrival waits for that, and so do events that arrived after it: the
timer must not see it. So a row due at a time has the events that arrived before that time, in whatever order they were
read.
"""

from bisect import insort
from collections.abc import Iterator, Sequence

from headrace.declare.operations import window_shapes
from headrace.declare.operations.windowed_stream import Windowing
from headrace.operators.operator import InputEvent, Key, OutputEvent
from headrace.operators.windows.aligned_windows import AlignedWindows, GlobalWindow
from headrace.operators.windows.emission import WindowEmitter, late_closing_row, late_row
from headrace.operators.windows.session_windows import SessionWindows
from headrace.operators.windows.window_aggregates import WindowAggregator
from headrace.operators.windows.window_state import (
    NEVER_US,
    WindowAssigner,
    WindowOperatorState,
    WindowSnapshot,
    WindowSpan,
    WindowStateCodec,
)


class WindowOperator:
    """Maintains the windows of a key, and emits rows by the declared trigger."""

    def __init__(self, spec: Windowing) -> None:
        aggregator = WindowAggregator(spec)
        self._late_policy, self._emit_every_us = spec.late, spec.every_us
        self._emits_on_every_event = spec.emit == "update"
        self._assigner = _create_assigner(spec.over, aggregator)
        self._emitter = WindowEmitter(spec, aggregator)
        self._codec = WindowStateCodec(aggregator, spec.schema)

    def create_state(self) -> WindowOperatorState:
        return WindowOperatorState()

    def encode_state(self, state: WindowOperatorState) -> bytes:
        return self._codec.encode(state)

    def decode_state(self, encoded: bytes) -> WindowOperatorState:
        return self._codec.decode(encoded)

    def next_timer_us(self, state: WindowOperatorState) -> int | None:
        return state.next_timer_us

    def process_event(self, key: Key, state: WindowOperatorState, event: InputEvent) -> Iterator[OutputEvent]:
        insort(state.waiting_events, event, key=lambda queued: queued.sort_key)
        yield from self._process_waiting(key, state)

    def on_timer(self, key: Key, state: WindowOperatorState, timer_us: int) -> Iterator[OutputEvent]:
        for span in sorted(state.spans.values(), key=lambda span: span.start_us):
            if span.next_timer_us <= timer_us:
                yield from self._fire_span_timer(key, state, span, timer_us)
        yield from self._process_waiting(key, state)

    def _process_waiting(self, key: Key, state: WindowOperatorState) -> Iterator[OutputEvent]:
        """Process events in order of arrival, up to one that an earlier timer must not see."""
        while state.waiting_events and not self._must_wait(state, state.waiting_events[0]):
            yield from self._process_in_order(key, state, state.waiting_events.pop(0))

    def _must_wait(self, state: WindowOperatorState, event: InputEvent) -> bool:
        return any(span.next_timer_us <= event.arrival_us for span in self._assigner.find_spans(state.spans, event))

    def _process_in_order(self, key: Key, state: WindowOperatorState, event: InputEvent) -> Iterator[OutputEvent]:
        if event.lateness_us > self._late_policy.until_us:
            yield from self._emit_late(key, state, event)
            return
        for span in self._assigner.add_event(state.spans, event):
            windows = self._assigner.list_windows(span)
            if self._emit_every_us is None:
                yield from self._emitter.emit_rows(
                    key, span, windows, event.arrival_us, emit_early=self._emits_on_every_event
                )
            elif span.emit_timer_us is None:
                span.emit_timer_us = (event.arrival_us // self._emit_every_us + 1) * self._emit_every_us
            self._schedule_timer(span, windows, event.arrival_us)

    def _emit_late(self, key: Key, state: WindowOperatorState, event: InputEvent) -> Iterator[OutputEvent]:
        """Count a late event once: with the window it misses, or alone where that is closed."""
        if self._late_policy.then != "drop":
            yield late_row(event)
        missed_spans = [
            span for span in self._assigner.find_spans(state.spans, event) if self._is_open(span, event.arrival_us)
        ]
        if missed_spans:
            missed_spans[-1].late_count += 1
        else:
            yield late_closing_row(key, event, self._assigner.event_bounds(event))

    def _fire_span_timer(
        self, key: Key, state: WindowOperatorState, span: WindowSpan, timer_us: int
    ) -> Iterator[OutputEvent]:
        is_emit_timer = span.emit_timer_us is not None and span.emit_timer_us <= timer_us
        if is_emit_timer:
            span.emit_timer_us = None
        yield from self._emitter.emit_rows(
            key, span, self._assigner.list_windows(span), timer_us, emit_early=is_emit_timer
        )
        if self._assigner.expire_windows(span, timer_us - self._late_policy.until_us):
            del state.spans[span.start_us]
        else:
            self._schedule_timer(span, self._assigner.list_windows(span), timer_us)

    def _is_open(self, span: WindowSpan, now_us: int) -> bool:
        """Whether a closing is still to come; a window that never closes has none."""
        before_us = now_us - self._late_policy.after_us
        return any(before_us < window.closes_us < NEVER_US for window in self._assigner.list_windows(span))

    def _schedule_timer(self, span: WindowSpan, windows: Sequence[WindowSnapshot], now_us: int) -> None:
        closings_us = [window.closes_us + self._late_policy.after_us for window in windows]
        timers_us = [
            *closings_us,
            self._assigner.first_expiry_us(span) + self._late_policy.until_us,
            span.emit_timer_us or NEVER_US,
        ]
        span.next_timer_us = min([timer_us for timer_us in timers_us if timer_us > now_us])


def _create_assigner(shape: window_shapes.WindowShape, aggregator: WindowAggregator) -> WindowAssigner:
    match shape:
        case window_shapes.Session():
            return SessionWindows(shape, aggregator)
        case window_shapes.Global():
            return GlobalWindow(aggregator)
        case window_shapes.AlignedShape():
            return AlignedWindows(shape, aggregator)
