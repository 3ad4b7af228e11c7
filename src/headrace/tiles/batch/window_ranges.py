"""The windows of many entities at many times, as ranges of folded values.

    events   ·· ··· ····|·······|· ···········|·····        of one entity, sorted by tile and by known time
    blocks              |       |├──┤├──┤├──┤ |             64 events each, of tiles that have many
    tiles    ├─────────┤├──────┤├────────────┤├────┤
    window     (─────────────────────────── t ]
    pieces     └── closed tiles ──┘└ blocks ┘·· events      the events known at t, each once

An event is known from its arrival on, or from its own time on: this is the only difference between the two modes. A
tile whose events are all known is used whole; of another one, the known events are a prefix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.aggregates.value_columns import Data, Mask
from headrace.tiles.batch.sorted_times import Ints, SortedTimes

BLOCK_EVENTS = 64
MIN_EVENTS_FOR_BLOCKS = 2 * BLOCK_EVENTS


@dataclass(frozen=True)
class IndexRanges:
    """Ranges [low, high) of an array, each for one pair; pairs may have none or several."""

    pairs: Ints
    low: Ints
    high: Ints

    def drop_empty(self) -> "IndexRanges":
        """The non-empty ranges."""
        return self.select(self.high > self.low)

    def select(self, selection: Mask | Ints) -> "IndexRanges":
        return IndexRanges(self.pairs[selection], self.low[selection], self.high[selection])

    def reduce(self, reduction: np.ufunc, column: Data) -> Data:
        """The reduction of each range, none of which may be empty."""
        if not len(self.low):
            return column[:0]
        bounds = np.empty(2 * len(self.low), np.int64)
        bounds[::2], bounds[1::2] = self.low, self.high
        # A bound may be the column's end, where reduceat needs an element.
        reduced: Data = reduction.reduceat(np.append(column, column[-1:]), bounds)[::2]
        return reduced

    def expand(self) -> tuple[Ints, Ints]:
        """The pair and the index of every element."""
        sizes = self.high - self.low
        firsts = np.cumsum(sizes) - sizes
        indices = np.arange(sizes.sum()) - np.repeat(firsts - self.low, sizes)
        return np.repeat(self.pairs, sizes), indices


def concat_ranges(parts: list[IndexRanges]) -> IndexRanges:
    return IndexRanges(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("pairs", "low", "high")))


@dataclass(frozen=True)
class WindowRanges:
    """The windows of some pairs: ranges of tiles, of blocks and of events."""

    tiles: IndexRanges
    blocks: IndexRanges
    events: IndexRanges

    @property
    def pairs(self) -> Ints:
        """The pair of every range: of tiles, then of blocks, then of events."""
        return np.concatenate([self.tiles.pairs, self.blocks.pairs, self.events.pairs])


def concat_windows(parts: Sequence[WindowRanges]) -> WindowRanges:
    """The windows of the same pairs over several groups, combined."""
    if len(parts) == 1:
        return parts[0]
    return WindowRanges(
        *(concat_ranges([getattr(part, name) for part in parts]) for name in ("tiles", "blocks", "events"))
    )


class HopIndex:
    """The events of groups, sorted by group and time, divided into tiles of one hop."""

    def __init__(self, group_ids: Ints, times_us: Ints, known_us: Ints, hop_us: int) -> None:
        self.hop_us = hop_us
        self._group_ids, self._starts_us = group_ids, times_us // hop_us * hop_us
        self.order = self._order_by_known(known_us)
        self._known_us = known_us[self.order]

    def _order_by_known(self, known_us: Ints) -> Ints:
        """Sort each tile by known time, which is often the current order."""
        in_order = (np.diff(known_us) >= 0) | (np.diff(self.tile_numbers) != 0)
        return np.arange(len(known_us)) if in_order.all() else np.lexsort((known_us, self.tile_numbers))

    @cached_property
    def first_events(self) -> Ints:
        """The index of each tile's first event, and of the last one's end."""
        changes = (np.diff(self._group_ids) != 0) | (np.diff(self._starts_us) != 0)
        return np.concatenate(([0], np.flatnonzero(changes) + 1, [len(self._group_ids)]))

    @cached_property
    def tile_numbers(self) -> Ints:
        """The number of each event's tile."""
        return np.repeat(np.arange(len(self.first_events) - 1), np.diff(self.first_events))

    @cached_property
    def _tile_group_ids(self) -> Ints:
        return self._group_ids[self.first_events[:-1]]

    @cached_property
    def _tile_starts(self) -> SortedTimes:
        return SortedTimes(self._tile_group_ids, self._starts_us[self.first_events[:-1]])

    @cached_property
    def _tile_known_times(self) -> SortedTimes:
        known_us = np.maximum.reduceat(self._known_us, self.first_events[:-1])
        return SortedTimes.with_running_max(self._tile_group_ids, known_us)

    @cached_property
    def _event_known_times(self) -> SortedTimes:
        return SortedTimes(self.tile_numbers, self._known_us)

    @cached_property
    def _block_offsets(self) -> Ints:
        """The index of each tile's first block, and the total."""
        sizes = np.diff(self.first_events)
        return np.concatenate(([0], np.cumsum(np.where(sizes >= MIN_EVENTS_FOR_BLOCKS, sizes // BLOCK_EVENTS, 0))))

    @cached_property
    def block_ranges(self) -> IndexRanges:
        """The events of each block."""
        counts = np.diff(self._block_offsets)
        tiles = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(tiles)) - self._block_offsets[tiles]
        low = self.first_events[tiles] + number * BLOCK_EVENTS
        return IndexRanges(tiles, low, low + BLOCK_EVENTS)

    def find_windows(self, group_ids: Ints, at_us: Ints, known_by_us: Ints, length_us: int) -> WindowRanges:
        """The windows of a length of some (group, time) pairs, over the events known by a time."""
        low = self._tile_starts.search_right(group_ids, at_us - length_us - self.hop_us)
        high = self._tile_starts.search_right(group_ids, at_us)
        known_end = np.clip(self._tile_known_times.search_right(group_ids, known_by_us), low, high)
        pairs = np.arange(len(group_ids))
        return self._split_windows(IndexRanges(pairs, low, known_end), IndexRanges(pairs, known_end, high), known_by_us)

    def _split_windows(
        self, known_tiles: IndexRanges, partly_known_tiles: IndexRanges, known_by_us: Ints
    ) -> WindowRanges:
        pairs, tiles = partly_known_tiles.drop_empty().expand()
        first, end = self.first_events[tiles], self._event_known_times.search_right(tiles, known_by_us[pairs])
        is_whole = end == self.first_events[tiles + 1]
        whole_tiles = IndexRanges(pairs[is_whole], tiles[is_whole], tiles[is_whole] + 1)
        partial_tiles = IndexRanges(pairs[~is_whole], tiles[~is_whole], tiles[~is_whole])
        first, end = first[~is_whole], end[~is_whole]
        low = self._block_offsets[partial_tiles.low]
        blocks = np.minimum((end - first) // BLOCK_EVENTS, self._block_offsets[partial_tiles.low + 1] - low)
        return WindowRanges(
            tiles=concat_ranges([known_tiles, whole_tiles]).drop_empty(),
            blocks=IndexRanges(partial_tiles.pairs, low, low + blocks).drop_empty(),
            events=IndexRanges(partial_tiles.pairs, first + blocks * BLOCK_EVENTS, end).drop_empty(),
        )

    def to_event_ranges(self, windows: WindowRanges) -> IndexRanges:
        """The same windows as ranges of events, by pair."""
        tiles, blocks = windows.tiles, windows.blocks
        block_ranges = self.block_ranges
        ranges = concat_ranges(
            [
                IndexRanges(tiles.pairs, self.first_events[tiles.low], self.first_events[tiles.high]),
                IndexRanges(blocks.pairs, block_ranges.low[blocks.low], block_ranges.high[blocks.high - 1]),
                windows.events,
            ]
        )
        by_pair = np.argsort(ranges.pairs, kind="stable")
        return ranges.select(by_pair)
