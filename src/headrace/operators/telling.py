"""The rows that are told of windows: results, their corrections, what is taken back, and what is known of closings.

    revision 0 ──▶ 1 ──▶ 2        of one window: the greatest stands, unless it is taken back
    final      ──▶ retraction ──▶ correction      what was final is never replaced unsaid
    ├───┤ grows: retraction ──▶ ├──────┤          a window that is no more is taken back as well

So final results and corrections, less retractions, are what is true at any moment.
"""

from collections.abc import Iterator, Sequence

import orjson

from headrace.declare.windowed import LATENESS, Windowing
from headrace.operators.operator import Arrived, Key, Made
from headrace.operators.spans import NEVER_US, Bounds, Span, Told, Window
from headrace.operators.tallies import Tallies, Values


class Telling:
    """Tells of the windows of a windowing."""

    def __init__(self, what: Windowing, tallies: Tallies) -> None:
        self._after_us, self._tallies = what.late.after_us, tallies

    def told(self, key: Key, span: Span, windows: Sequence[Window], now_us: int, *, early: bool) -> Iterator[Made]:
        """What is to be said of a span's windows now: of those that are closed, or of all that have changed."""
        if span.told:
            yield from self._take_back_the_gone(key, span, {window.bounds for window in windows}, now_us)
        for window in windows:
            is_final = window.closes_us + self._after_us <= now_us
            if early or is_final:
                yield from self._row(key, span, window, is_final, now_us)

    def _take_back_the_gone(self, key: Key, span: Span, there: set[Bounds], now_us: int) -> Iterator[Made]:
        for place, one in enumerate(span.told):
            if one.stands and one.bounds not in there:
                span.told[place] = one._replace(stands=False)
                yield _retraction(key, one, now_us)

    def _row(self, key: Key, span: Span, window: Window, is_final: bool, now_us: int) -> Iterator[Made]:
        before = next((one for one in span.told if one.stands and one.bounds == window.bounds), None)
        if before is not None and (before.events, before.is_final) == (window.tally.events, is_final):
            return
        if before is not None and before.is_final:
            yield _retraction(key, before, now_us)
        earlier = [one for one in span.told if _overlap(one.bounds, window.bounds)]
        told = Told(
            bounds=window.bounds,
            revision=max([one.revision for one in earlier], default=-1) + 1,
            is_final=is_final,
            events=window.tally.events,
            time_us=min(window.closes_us - 1, now_us),
            values=self._tallies.values(window.tally),
        )
        span.told = [*(one for one in span.told if one not in earlier or _goes_on(one, told)), told]
        yield _result(key, told, "correction" if any(one.is_final for one in earlier) else "result", now_us)
        if is_final and not (before is not None and before.is_final):
            yield _closing(key, told, span.late, now_us)
            span.late = 0


def left_out(key: Key, event: Arrived, bounds: Bounds) -> Made:
    """What the closings say of a row that came too late for a window that is closed."""
    values = _bounds(bounds) | {"events": 0, "late_rows": 1, "revisions": 0}
    return Made("closed", f"{_text(key)}@late:{event.id}", event.arrival_us, event.arrival_us, values)


def late_row(event: Arrived) -> Made:
    """A row that came too late, as it came."""
    values = {**event.values, LATENESS: event.lateness_us}
    return Made("late", str(event.id), event.time_us, event.arrival_us, values)


def _goes_on(one: Told, told: Told) -> bool:
    """Whether what was taken back lasted longer than what takes its place: another will take the rest of it."""
    return not one.stands and one.bounds[1] > told.bounds[1]


def _overlap(one: Bounds, other: Bounds) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _result(key: Key, told: Told, kind: str, now_us: int) -> Made:
    return Made("out", _id(key, told), told.time_us, now_us, _said(told, kind))


def _retraction(key: Key, told: Told, now_us: int) -> Made:
    return Made("out", f"{_id(key, told)}-", told.time_us, now_us, _said(told, "retraction"))


def _closing(key: Key, told: Told, late: int, now_us: int) -> Made:
    values = _bounds(told.bounds) | {"events": told.events, "late_rows": late, "revisions": told.revision}
    return Made("closed", _id(key, told), told.time_us, now_us, values)


def _said(told: Told, kind: str) -> Values:
    standing = {"kind": kind, "revision": told.revision, "is_final": told.is_final}
    return _bounds(told.bounds) | standing | told.values


def _bounds(bounds: Bounds) -> Values:
    start_us, end_us = (None if abs(one) == NEVER_US else one for one in bounds)
    return {"window_start": start_us, "window_end": end_us}


def _id(key: Key, told: Told) -> str:
    start_us, end_us = told.bounds
    return f"{_text(key)}@{start_us}+{end_us - start_us}#{told.revision}"


def _text(key: Key) -> str:
    return orjson.dumps(key).decode()
