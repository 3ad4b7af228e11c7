"""Windows that begin at multiples of a step, whatever the events: tumbling, sliding, and the one that has no end.

sliding("3m", every="1m"):   an event at 12:02:30 counts in the windows that begin at 12:00, 12:01, 12:02
"""

from headrace.declare import shapes
from headrace.operators.operator import Arrived
from headrace.operators.spans import NEVER_US, Bounds, Span, Spans, Window
from headrace.operators.tallies import Tallies

_ONLY = 0  # what has one cell has it under this number


class Aligned:
    """Windows of one length: each is a span of its own."""

    def __init__(self, over: shapes.Aligned, tallies: Tallies) -> None:
        self._size_us, self._every_us, self._tallies = over.size_us, over.every_us, tallies

    def met(self, spans: Spans, event: Arrived) -> list[Span]:
        return [spans[start_us] for start_us in self._starts_us(event) if start_us in spans]

    def reached(self, spans: Spans, event: Arrived) -> list[Span]:
        return [self._with(spans, start_us, event) for start_us in self._starts_us(event)]

    def _starts_us(self, event: Arrived) -> range:
        """Where the windows of an event begin, from the first to the last."""
        return range(self._last_start_us(event), event.time_us - self._size_us, -self._every_us)[::-1]

    def _last_start_us(self, event: Arrived) -> int:
        return event.time_us // self._every_us * self._every_us

    def _with(self, spans: Spans, start_us: int, event: Arrived) -> Span:
        span = spans.get(start_us)
        if span is None:
            end_us = start_us + self._size_us
            span = spans[start_us] = Span(start_us, end_us, {_ONLY: self._tallies.begin()})
        self._tallies.add(span.cells[_ONLY], event)
        return span

    def windows(self, span: Span) -> list[Window]:
        return [Window((span.start_us, span.end_us), span.end_us, span.cells[_ONLY])]

    def own(self, event: Arrived) -> Bounds:
        start_us = self._last_start_us(event)
        return start_us, start_us + self._size_us

    def forget(self, span: Span, before_us: int) -> bool:
        return span.end_us <= before_us

    def forgets_us(self, span: Span) -> int:
        return span.end_us


class Global:
    """One window, which never closes: whatever came counts, and nothing is let go."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies

    def met(self, spans: Spans, event: Arrived) -> list[Span]:  # noqa: ARG002  # it is the same for all
        return list(spans.values())

    def reached(self, spans: Spans, event: Arrived) -> list[Span]:
        span = spans.setdefault(-NEVER_US, Span(-NEVER_US, NEVER_US))
        self._tallies.add(span.cells.setdefault(_ONLY, self._tallies.begin()), event)
        return [span]

    def windows(self, span: Span) -> list[Window]:
        return [Window((span.start_us, span.end_us), NEVER_US, span.cells[_ONLY])]

    def own(self, event: Arrived) -> Bounds:  # noqa: ARG002
        return -NEVER_US, NEVER_US

    def forget(self, span: Span, before_us: int) -> bool:  # noqa: ARG002
        return False

    def forgets_us(self, span: Span) -> int:  # noqa: ARG002
        return NEVER_US
