"""Emits the rows of windows: results, corrections, retractions, and closings.

    revision 0 ──▶ 1 ──▶ 2        of one window: the greatest is current, unless it is retracted
    final      ──▶ retraction ──▶ correction      a final row is never replaced without a retraction
    ├───┤ grows: retraction ──▶ ├──────┤          a merged window is retracted as well

So final results and corrections, less retractions, are the current state at any time.
"""

from collections.abc import Iterator, Sequence

import orjson

from headrace.declare.operations.windowed_stream import LATENESS_COLUMN, Windowing
from headrace.operators.operator import InputEvent, Key, OutputEvent
from headrace.operators.windows.window_aggregates import ResultValues, WindowAggregator
from headrace.operators.windows.window_state import NEVER_US, EmittedWindowRow, WindowBounds, WindowSnapshot, WindowSpan


class WindowEmitter:
    """Emits the rows of a windowing."""

    def __init__(self, spec: Windowing, aggregator: WindowAggregator) -> None:
        self._allowed_lateness_us, self._aggregator = spec.late.after_us, aggregator

    def emit_rows(
        self, key: Key, span: WindowSpan, windows: Sequence[WindowSnapshot], now_us: int, *, emit_early: bool
    ) -> Iterator[OutputEvent]:
        """The rows to emit for a span's windows now: of closed ones, or of all that have changed."""
        if span.emitted_rows:
            yield from self._retract_vanished(key, span, {window.bounds for window in windows}, now_us)
        for window in windows:
            is_final = window.closes_us + self._allowed_lateness_us <= now_us
            if emit_early or is_final:
                yield from self._emit_window(key, span, window, is_final, now_us)

    def _retract_vanished(
        self, key: Key, span: WindowSpan, current_bounds: set[WindowBounds], now_us: int
    ) -> Iterator[OutputEvent]:
        for index, row in enumerate(span.emitted_rows):
            if row.is_current and row.bounds not in current_bounds:
                span.emitted_rows[index] = row._replace(is_current=False)
                yield _retraction_row(key, row, now_us)

    def _emit_window(
        self, key: Key, span: WindowSpan, window: WindowSnapshot, is_final: bool, now_us: int
    ) -> Iterator[OutputEvent]:
        previous = next(
            (emitted for emitted in span.emitted_rows if emitted.is_current and emitted.bounds == window.bounds), None
        )
        if previous is not None and (previous.event_count, previous.is_final) == (window.state.event_count, is_final):
            return
        if previous is not None and previous.is_final:
            yield _retraction_row(key, previous, now_us)
        overlapping = [one for one in span.emitted_rows if _is_overlapping(one.bounds, window.bounds)]
        row = EmittedWindowRow(
            bounds=window.bounds,
            revision=max([one.revision for one in overlapping], default=-1) + 1,
            is_final=is_final,
            event_count=window.state.event_count,
            time_us=min(window.closes_us - 1, now_us),
            values=self._aggregator.compute_results(window.state),
        )
        span.emitted_rows = [*(one for one in span.emitted_rows if one not in overlapping or _outlasts(one, row)), row]
        yield _result_row(key, row, "correction" if any(one.is_final for one in overlapping) else "result", now_us)
        if is_final and not (previous is not None and previous.is_final):
            yield _closing_row(key, row, span.late_count, now_us)
            span.late_count = 0


def late_closing_row(key: Key, event: InputEvent, bounds: WindowBounds) -> OutputEvent:
    """The closing row of a late event whose window is closed."""
    values = _bounds_values(bounds) | {"events": 0, "late_rows": 1, "revisions": 0}
    return OutputEvent("closed", f"{_key_text(key)}@late:{event.id}", event.arrival_us, event.arrival_us, values)


def late_row(event: InputEvent) -> OutputEvent:
    """A late event as a row, unchanged."""
    values = {**event.values, LATENESS_COLUMN: event.lateness_us}
    return OutputEvent("late", str(event.id), event.time_us, event.arrival_us, values)


def _outlasts(earlier_row: EmittedWindowRow, new_row: EmittedWindowRow) -> bool:
    """Whether a retracted window is longer than its replacement: another replaces the rest."""
    return not earlier_row.is_current and earlier_row.bounds[1] > new_row.bounds[1]


def _is_overlapping(first: WindowBounds, second: WindowBounds) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def _result_row(key: Key, row: EmittedWindowRow, kind: str, now_us: int) -> OutputEvent:
    return OutputEvent("out", _row_id(key, row), row.time_us, now_us, _row_values(row, kind))


def _retraction_row(key: Key, row: EmittedWindowRow, now_us: int) -> OutputEvent:
    return OutputEvent("out", f"{_row_id(key, row)}-", row.time_us, now_us, _row_values(row, "retraction"))


def _closing_row(key: Key, row: EmittedWindowRow, late_count: int, now_us: int) -> OutputEvent:
    values = _bounds_values(row.bounds) | {
        "events": row.event_count,
        "late_rows": late_count,
        "revisions": row.revision,
    }
    return OutputEvent("closed", _row_id(key, row), row.time_us, now_us, values)


def _row_values(row: EmittedWindowRow, kind: str) -> ResultValues:
    status = {"kind": kind, "revision": row.revision, "is_final": row.is_final}
    return _bounds_values(row.bounds) | status | row.values


def _bounds_values(bounds: WindowBounds) -> ResultValues:
    start_us, end_us = (None if abs(bound_us) == NEVER_US else bound_us for bound_us in bounds)
    return {"window_start": start_us, "window_end": end_us}


def _row_id(key: Key, row: EmittedWindowRow) -> str:
    start_us, end_us = row.bounds
    return f"{_key_text(key)}@{start_us}+{end_us - start_us}#{row.revision}"


def _key_text(key: Key) -> str:
    return orjson.dumps(key).decode()
