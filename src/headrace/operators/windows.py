"""Windows of every shape as one operator: events are taken into spans, and time closes, tells and forgets them.

    event time        end       + after            + until
    ├──── window ─────┤─────────┤──────────────────┤
    clock                       closes: a row      forgotten
    an event, late by           ≤ after: counts    ≤ until, then="update": corrects     more: late

An event whose window has something due before it arrived waits for that, and so do those that arrived after it: it is
seen by what comes after, never by what was before. So a row that is due at a time is of the events that arrived before
it, however they were read.
"""

from bisect import insort
from collections.abc import Iterator, Sequence

from headrace.declare import shapes
from headrace.declare.windowed import Windowing
from headrace.operators.aligned import Aligned, Global
from headrace.operators.operator import Arrived, Key, Made
from headrace.operators.sessions import Sessions
from headrace.operators.spans import NEVER_US, Kept, Packer, Shape, Span, Window
from headrace.operators.tallies import Tallies
from headrace.operators.telling import Telling, late_row, left_out


class Windows:
    """Keeps the windows of a key, and tells of them as was asked for."""

    def __init__(self, what: Windowing) -> None:
        tallies = Tallies(what)
        self._late, self._every_us = what.late, what.every_us
        self._on_every_event = what.emit == "update"
        self._shape = _shape_of(what.over, tallies)
        self._telling = Telling(what, tallies)
        self._packer = Packer(tallies, what.schema)

    def begin(self) -> Kept:
        return Kept()

    def packed(self, kept: Kept) -> bytes:
        return self._packer.packed(kept)

    def unpacked(self, packed: bytes) -> Kept:
        return self._packer.unpacked(packed)

    def due_us(self, kept: Kept) -> int | None:
        return kept.due_us

    def take(self, key: Key, kept: Kept, event: Arrived) -> Iterator[Made]:
        insort(kept.waiting, event, key=lambda one: one.order)
        yield from self._take_waiting(key, kept)

    def wake(self, key: Key, kept: Kept, at_us: int) -> Iterator[Made]:
        for span in sorted(kept.spans.values(), key=lambda span: span.start_us):
            if span.due_us <= at_us:
                yield from self._wake_span(key, kept, span, at_us)
        yield from self._take_waiting(key, kept)

    def _take_waiting(self, key: Key, kept: Kept) -> Iterator[Made]:
        """Take events as they arrived, up to one that would be seen by what was due before."""
        while kept.waiting and not self._is_early(kept, kept.waiting[0]):
            yield from self._taken(key, kept, kept.waiting.pop(0))

    def _is_early(self, kept: Kept, event: Arrived) -> bool:
        return any(span.due_us <= event.arrival_us for span in self._shape.met(kept.spans, event))

    def _taken(self, key: Key, kept: Kept, event: Arrived) -> Iterator[Made]:
        if event.lateness_us > self._late.until_us:
            yield from self._left_out(key, kept, event)
            return
        for span in self._shape.reached(kept.spans, event):
            windows = self._shape.windows(span)
            if self._every_us is None:
                yield from self._telling.told(key, span, windows, event.arrival_us, early=self._on_every_event)
            elif span.tick_us is None:
                span.tick_us = (event.arrival_us // self._every_us + 1) * self._every_us
            self._note_due(span, windows, event.arrival_us)

    def _left_out(self, key: Key, kept: Kept, event: Arrived) -> Iterator[Made]:
        """A row that is too late is counted once: with the window it misses, or alone where that is closed."""
        if self._late.then != "drop":
            yield late_row(event)
        missed = [span for span in self._shape.met(kept.spans, event) if self._is_open(span, event.arrival_us)]
        if missed:
            missed[-1].late += 1
        else:
            yield left_out(key, event, self._shape.own(event))

    def _wake_span(self, key: Key, kept: Kept, span: Span, at_us: int) -> Iterator[Made]:
        is_tick = span.tick_us is not None and span.tick_us <= at_us
        if is_tick:
            span.tick_us = None
        yield from self._telling.told(key, span, self._shape.windows(span), at_us, early=is_tick)
        if self._shape.forget(span, at_us - self._late.until_us):
            del kept.spans[span.start_us]
        else:
            self._note_due(span, self._shape.windows(span), at_us)

    def _is_open(self, span: Span, now_us: int) -> bool:
        """Whether a closing is still to come; of what never closes there is none."""
        before_us = now_us - self._late.after_us
        return any(before_us < window.closes_us < NEVER_US for window in self._shape.windows(span))

    def _note_due(self, span: Span, windows: Sequence[Window], now_us: int) -> None:
        closings_us = [window.closes_us + self._late.after_us for window in windows]
        dues = [*closings_us, self._shape.forgets_us(span) + self._late.until_us, span.tick_us or NEVER_US]
        span.due_us = min([due_us for due_us in dues if due_us > now_us])


def _shape_of(over: shapes.Shape, tallies: Tallies) -> Shape:
    match over:
        case shapes.Session():
            return Sessions(over, tallies)
        case shapes.Global():
            return Global(tallies)
        case shapes.Aligned():
            return Aligned(over, tallies)
