"""Window shapes: the intervals of event time in which an event counts.

    Tumbling   ├─────┤├─────┤├─────┤     each event in one
    Sliding    ├─────┤                   each in several: one starts every period
                  ├─────┤
                     ├─────┤
    Session    ├●─●──●───┤   ├●───┤      until a gap without events
    Global     ├────────────────────▶    one, unbounded

Windows begin at multiples of their step since 1970; the end is not part of them.
"""

from dataclasses import dataclass

from headrace.declare.durations import duration_us
from headrace.errors import DeclarationError

MAX_OVERLAPPING_WINDOWS = 1000


@dataclass(frozen=True)
class AlignedShape:
    """Windows of one length that begin at multiples of a step, independent of the events."""

    size_us: int
    every_us: int


class Tumbling(AlignedShape):
    """Consecutive windows: `hr.Tumbling("1m")`."""

    def __init__(self, size: str) -> None:
        size_us = duration_us(size, "Tumbling: size")
        super().__init__(size_us, size_us)


class Sliding(AlignedShape):
    """Overlapping windows: `hr.Sliding("10m", every="1m")`."""

    def __init__(self, size: str, *, every: str) -> None:
        size_us, every_us = duration_us(size, "Sliding: size"), duration_us(every, "Sliding: every")
        if every_us > size_us:
            raise DeclarationError(
                f"Sliding: every={every!r} is longer than {size!r}, and events between two windows would count in "
                "none. Write a shorter every."
            )
        if -(-size_us // every_us) > MAX_OVERLAPPING_WINDOWS:
            raise DeclarationError(
                f"Sliding: an event would count in {-(-size_us // every_us):,} windows of {size!r} every {every!r}. "
                f"Write a longer every: at most {MAX_OVERLAPPING_WINDOWS:,} are kept at once."
            )
        super().__init__(size_us, every_us)


@dataclass(frozen=True, init=False)
class Session:
    """Events separated by at most a gap, which is a duration or a column of seconds.

    An event extends its session by its gap; sessions that touch are merged. A session that lasts longer than `longest`
    is cut at multiples of `longest`.
    """

    gap_us: int | None
    gap_column: str | None
    longest_us: int | None

    def __init__(self, gap: str | None = None, *, gap_column: str | None = None, longest: str | None = None) -> None:
        if (gap is None) == (gap_column is None):
            raise DeclarationError(
                f'Session: gap={gap!r} with gap_column={gap_column!r}. Write one of them: hr.Session("30m").'
            )
        gap_us = None if gap is None else duration_us(gap, "Session: gap")
        longest_us = None if longest is None else duration_us(longest, "Session: longest")
        if gap_us is not None and longest_us is not None and longest_us < gap_us:
            raise DeclarationError(
                f"Session: longest={longest!r} is shorter than the gap {gap!r}. Write a longer one, or leave it out."
            )
        if gap_column is not None and longest_us is None:
            raise DeclarationError(
                f"Session: with gap_column={gap_column!r} one event could hold a session open for years. "
                'Write longest="1d".'
            )
        object.__setattr__(self, "gap_us", gap_us)
        object.__setattr__(self, "gap_column", gap_column)
        object.__setattr__(self, "longest_us", longest_us)


@dataclass(frozen=True)
class Global:
    """All events of a key in one unbounded window."""


WindowShape = AlignedShape | Session | Global
