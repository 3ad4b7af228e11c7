"""Sessions: events reach as far as their gap, and all that touch are one.

    ●──────┤                 gap of the first
         ●──────┤            touches it: one session      ├●────●──────┤
                     ●──────┤   does not: another                          ├●──────┤

An event that comes between two makes them one. A session that is longer than `longest` is told in pieces, cut at the
multiples of that: each piece has a tally of its own from the beginning, so nothing has to be taken apart.

    longest  │             │             │
             │  ●─●──●──●──│─●──●─────●──│─●──┤       longer: three windows
             │          ●──│──●──┤       │            not longer: one window, though it has two tallies
"""

import math

from headrace.declare.shapes import Session
from headrace.operators.operator import Arrived
from headrace.operators.spans import Bounds, Span, Spans, Window
from headrace.operators.tallies import Tallies, Tally

_S_US = 1_000_000
_TOUCHES_US = 1  # what happens just at the end of a session still belongs to it


class Sessions:
    """Sessions of a key: each is a span, in cells as long as the longest may be."""

    def __init__(self, over: Session, tallies: Tallies) -> None:
        self._gap_us, self._gap_column, self._longest_us = over.gap_us or 0, over.gap_column, over.longest_us
        self._tallies = tallies

    def reached(self, spans: Spans, event: Arrived) -> list[Span]:
        start_us, end_us = self.own(event)
        met = self.met(spans, event)
        for span in met:
            del spans[span.start_us]
        span = self._one(Span(start_us, end_us), met)
        cell = self._cell(event.time_us)
        self._tallies.add(span.cells.setdefault(cell, self._tallies.begin()), event)
        spans[span.start_us] = span
        return [span]

    def own(self, event: Arrived) -> Bounds:
        return event.time_us, event.time_us + self._reach_us(event)

    def _reach_us(self, event: Arrived) -> int:
        """How far an event reaches: at least one microsecond, at most as long as a session may be."""
        if self._gap_column is None:
            return self._gap_us
        seconds = event.values[self._gap_column]
        longest_us = self._longest_us or 0
        if seconds is None or math.isnan(seconds) or seconds <= 0:
            return 1
        return longest_us if seconds * _S_US >= longest_us else max(1, round(seconds * _S_US))

    def met(self, spans: Spans, event: Arrived) -> list[Span]:
        start_us, end_us = self.own(event)
        return [span for span in spans.values() if span.start_us <= end_us and start_us <= span.end_us]

    def _one(self, begun: Span, met: list[Span]) -> Span:
        """The span that some are once they touch."""
        for span in met:
            begun.start_us, begun.end_us = min(begun.start_us, span.start_us), max(begun.end_us, span.end_us)
            begun.late += span.late
            begun.told += span.told
            begun.tick_us = span.tick_us if begun.tick_us is None else begun.tick_us
            for cell, tally in span.cells.items():
                begun.cells[cell] = self._tallies.together(begun.cells[cell], tally) if cell in begun.cells else tally
        return begun

    def _cell(self, time_us: int) -> int:
        return 0 if self._longest_us is None else time_us // self._longest_us

    def windows(self, span: Span) -> list[Window]:
        if not self._is_cut(span):
            tallies = list(span.cells.values())
            whole = tallies[0] if len(tallies) == 1 else self._tallies.together(*tallies)
            return [Window((span.start_us, span.end_us), span.end_us + _TOUCHES_US, whole)]
        return [self._piece(span, cell, span.cells[cell]) for cell in sorted(span.cells)]

    def _is_cut(self, span: Span) -> bool:
        return self._longest_us is not None and span.end_us - span.start_us > self._longest_us

    def _piece(self, span: Span, cell: int, tally: Tally) -> Window:
        """One of the windows of a long session: that it is long is known only after as long from its start."""
        length_us = self._longest_us or 0
        start_us, end_us = max(span.start_us, cell * length_us), min(span.end_us, (cell + 1) * length_us)
        closes_us = max(end_us, span.start_us + length_us) + _TOUCHES_US
        return Window((start_us, end_us), closes_us, tally)

    def forget(self, span: Span, before_us: int) -> bool:
        """Pieces go one by one; of the rest it is remembered where it began, as long as it may go on."""
        if self._is_cut(span):
            for cell in [
                cell for cell in span.cells if self._piece(span, cell, span.cells[cell]).closes_us <= before_us
            ]:
                gone = self._piece(span, cell, span.cells.pop(cell))
                span.told = [told for told in span.told if told.bounds != gone.bounds]
        return span.end_us + _TOUCHES_US <= before_us

    def forgets_us(self, span: Span) -> int:
        closes = (
            [self._piece(span, cell, span.cells[cell]).closes_us for cell in span.cells] if self._is_cut(span) else []
        )
        return min([*closes, span.end_us + _TOUCHES_US])
