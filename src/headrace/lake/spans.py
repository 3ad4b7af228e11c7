"""What of a topic is still to land, told by its table and its log."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import HeadraceError
from headrace.lake.table import LakeTable, Position
from headrace.log.offsets import Offsets

LOGGER = logging.getLogger("headrace.lake")


class LogStartedAnew(HeadraceError):
    """A table is ahead of the log it is said to come from."""

    def __init__(self, table: LakeTable, partition: int, landed: int, end: int) -> None:
        super().__init__(
            f"The table at {str(table.folder)!r} holds {table.landing.counts}-{partition}@{landed}, but that log ends "
            f"at {end}: it is not the log that landed here. Move that folder away, or give another --lake DIR."
        )


@dataclass(frozen=True)
class Span:
    """The offsets of one partition that a step reads: from start up to, not with, stop."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def waiting(table: LakeTable, offsets: Offsets) -> tuple[dict[int, Position], dict[int, Span]]:
    """How far each partition has landed, and what of those with news has not."""
    landing = table.landing
    begins = {at.number: offset for at, offset in offsets.begin([landing.topic]).items()}
    ends = {at.number: offset for at, offset in offsets.end([landing.topic]).items()}
    positions = table.positions(sorted(ends))
    spans = {
        number: Span(_start(table, number, position, begins[number], ends[number]), ends[number])
        for number, position in positions.items()
    }
    return positions, {number: span for number, span in spans.items() if len(span)}


def _start(table: LakeTable, number: int, position: Position, begin: int, end: int) -> int:
    start = position.read + 1
    if start > end:
        if not table.landing.may_replay:
            raise LogStartedAnew(table, number, position.read, end)
        return begin  # made anew by the gate from the raw log: what has landed is known by its raw offset
    if begin > start > 0:
        LOGGER.warning("%s-%s: %s records were gone before they landed", table.landing.topic, number, begin - start)
    return max(start, begin)


def cut(spans: Mapping[int, Span], most: int) -> dict[int, Span]:
    """The spans cut so that together they are about so long at most, partitions moving evenly.

    >>> cut({0: Span(0, 1000), 1: Span(5, 10)}, 200)
    {0: Span(start=0, stop=100), 1: Span(start=5, stop=10)}
    """
    each = max(1, most // len(spans)) if spans else 0
    return {number: Span(span.start, min(span.stop, span.start + each)) for number, span in spans.items()}
