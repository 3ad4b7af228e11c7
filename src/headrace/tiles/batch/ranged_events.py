"""The events of windows, for functions that need each of them: expanded for a portion of the pairs at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headrace.aggregates.value_columns import Mask, ValueColumn
from headrace.aggregates.window_events import EventChunk
from headrace.tiles.batch.sorted_times import Ints
from headrace.tiles.batch.window_ranges import HopIndex, IndexRanges

MAX_EVENTS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class RangedEvents:
    """The windows of pairs as ranges of events."""

    hop: HopIndex
    ranges: IndexRanges
    times_us: Ints
    values: ValueColumn
    pair_count: int

    def select(self, is_selected: Mask) -> "RangedEvents":
        """The windows of some pairs only."""
        return replace(self, ranges=self.ranges.select(is_selected[self.ranges.pairs]))

    def split_into_chunks(self) -> Iterator[EventChunk]:
        """All windows, in chunks that fit into memory; a pair is never divided."""
        valid = self.values.valid[self.hop.order]
        for chunk_ranges in _split_ranges(self.ranges):
            pairs, positions = chunk_ranges.expand()
            is_counted = valid[positions]
            pairs, positions = pairs[is_counted], positions[is_counted]
            events = self.hop.order[positions]
            yield EventChunk(pairs, self.hop.tile_numbers[positions], self.times_us[events], self.values.data[events])


def _split_ranges(ranges: IndexRanges) -> Iterator[IndexRanges]:
    sizes = np.cumsum(ranges.high - ranges.low)
    last_of_pair = np.append(np.flatnonzero(np.diff(ranges.pairs)), len(ranges.pairs) - 1)
    begin = 0
    while begin < len(sizes):
        before = sizes[begin - 1] if begin else 0
        fitting_end = np.searchsorted(sizes, before + MAX_EVENTS_AT_ONCE, side="right")
        ends = last_of_pair[(last_of_pair >= begin)]
        end = int(ends[max(0, np.searchsorted(ends, fitting_end) - 1)]) + 1
        yield IndexRanges(ranges.pairs[begin:end], ranges.low[begin:end], ranges.high[begin:end])
        begin = end
