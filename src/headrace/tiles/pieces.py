"""The windows of many entities at many times, as ranges of what is already folded.

    events   ·· ··· ····|·······|· ···········|·····        of one entity, sorted by tile and by when they were known
    blocks              |       |├──┤├──┤├──┤ |             64 events each, of tiles that have many
    tiles    ├─────────┤├──────┤├────────────┤├────┤
    window     (─────────────────────────── t ]
    pieces     └── closed tiles ──┘└ blocks ┘·· events      what was known at t, each event once

An event is known from its arrival on, or from its own time on: that is the only difference between the two ways to look
back. A tile all of which was known is taken whole; of one that was not, what was known is a beginning of its events.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headrace.tiles.columns import Data, Mask
from headrace.tiles.timeline import Ints, Timeline

BLOCK = 64
WORTH_BLOCKS = 2 * BLOCK


@dataclass(frozen=True)
class Ranges:
    """Some [low, high) of an array, each for one pair; pairs may have none or several."""

    pairs: Ints
    low: Ints
    high: Ints

    def filled(self) -> "Ranges":
        """Those that are not empty."""
        return self.only(self.high > self.low)

    def only(self, which: Mask | Ints) -> "Ranges":
        return Ranges(self.pairs[which], self.low[which], self.high[which])

    def reduced(self, reduction: np.ufunc, column: Data) -> Data:
        """The reduction of each range, none of which may be empty."""
        if not len(self.low):
            return column[:0]
        bounds = np.empty(2 * len(self.low), np.int64)
        bounds[::2], bounds[1::2] = self.low, self.high
        # A bound may be the column's end, where there must be something to point at.
        reduced: Data = reduction.reduceat(np.append(column, column[-1:]), bounds)[::2]
        return reduced

    def spread(self) -> tuple[Ints, Ints]:
        """The pair and the place of every element."""
        sizes = self.high - self.low
        firsts = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) - np.repeat(firsts - self.low, sizes)
        return np.repeat(self.pairs, sizes), places


def together(parts: list[Ranges]) -> Ranges:
    return Ranges(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("pairs", "low", "high")))


@dataclass(frozen=True)
class Pieces:
    """The windows of some pairs: ranges of tiles, of blocks and of events."""

    tiles: Ranges
    blocks: Ranges
    events: Ranges

    @property
    def pairs(self) -> Ints:
        """The pair of every range: of tiles, then of blocks, then of events."""
        return np.concatenate([self.tiles.pairs, self.blocks.pairs, self.events.pairs])


def merged(parts: Sequence[Pieces]) -> Pieces:
    """The windows of the same pairs over several owners, as one."""
    if len(parts) == 1:
        return parts[0]
    return Pieces(*(together([getattr(part, name) for part in parts]) for name in ("tiles", "blocks", "events")))


class Hop:
    """The events of some owners, sorted by owner and time, cut into tiles of one hop."""

    def __init__(self, owners: Ints, times_us: Ints, known_us: Ints, hop_us: int) -> None:
        self.hop_us = hop_us
        self._owners, self._starts_us = owners, times_us // hop_us * hop_us
        self.order = self._by_known(known_us)
        self._known_us = known_us[self.order]

    def _by_known(self, known_us: Ints) -> Ints:
        """Within each tile as they became known, which often is as they stand already."""
        in_order = (np.diff(known_us) >= 0) | (np.diff(self.tile_of) != 0)
        return np.arange(len(known_us)) if in_order.all() else np.lexsort((known_us, self.tile_of))

    @cached_property
    def firsts(self) -> Ints:
        """Where each tile's events begin, and where the last one's end."""
        changes = (np.diff(self._owners) != 0) | (np.diff(self._starts_us) != 0)
        return np.concatenate(([0], np.flatnonzero(changes) + 1, [len(self._owners)]))

    @cached_property
    def tile_of(self) -> Ints:
        """The number of each event's tile."""
        return np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts))

    @cached_property
    def _tile_owners(self) -> Ints:
        return self._owners[self.firsts[:-1]]

    @cached_property
    def _tile_starts(self) -> Timeline:
        return Timeline(self._tile_owners, self._starts_us[self.firsts[:-1]])

    @cached_property
    def _closed(self) -> Timeline:
        known_us = np.maximum.reduceat(self._known_us, self.firsts[:-1])
        return Timeline.of_latest(self._tile_owners, known_us)

    @cached_property
    def _known(self) -> Timeline:
        return Timeline(self.tile_of, self._known_us)

    @cached_property
    def _blocks_of_tile(self) -> Ints:
        """How many blocks each tile has, and before it all others."""
        sizes = np.diff(self.firsts)
        return np.concatenate(([0], np.cumsum(np.where(sizes >= WORTH_BLOCKS, sizes // BLOCK, 0))))

    @cached_property
    def block_ranges(self) -> Ranges:
        """The events of each block."""
        counts = np.diff(self._blocks_of_tile)
        tiles = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(tiles)) - self._blocks_of_tile[tiles]
        low = self.firsts[tiles] + number * BLOCK
        return Ranges(tiles, low, low + BLOCK)

    def windows(self, owners: Ints, at_us: Ints, known_by_us: Ints, length_us: int) -> Pieces:
        """The windows of that length of some (owner, time) pairs, of what was known by then."""
        low = self._tile_starts.upto(owners, at_us - length_us - self.hop_us)
        high = self._tile_starts.upto(owners, at_us)
        closed = np.clip(self._closed.upto(owners, known_by_us), low, high)
        pairs = np.arange(len(owners))
        return self._pieces(Ranges(pairs, low, closed), Ranges(pairs, closed, high), known_by_us)

    def _pieces(self, closed: Ranges, opened: Ranges, known_by_us: Ints) -> Pieces:
        pairs, tiles = opened.filled().spread()
        first, end = self.firsts[tiles], self._known.upto(tiles, known_by_us[pairs])
        whole = end == self.firsts[tiles + 1]
        wholes = Ranges(pairs[whole], tiles[whole], tiles[whole] + 1)
        part = Ranges(pairs[~whole], tiles[~whole], tiles[~whole])
        first, end = first[~whole], end[~whole]
        low = self._blocks_of_tile[part.low]
        blocks = np.minimum((end - first) // BLOCK, self._blocks_of_tile[part.low + 1] - low)
        return Pieces(
            tiles=together([closed, wholes]).filled(),
            blocks=Ranges(part.pairs, low, low + blocks).filled(),
            events=Ranges(part.pairs, first + blocks * BLOCK, end).filled(),
        )

    def event_ranges(self, pieces: Pieces) -> Ranges:
        """The same windows as ranges of events, by pair."""
        tiles, blocks = pieces.tiles, pieces.blocks
        of_blocks = self.block_ranges
        every = together(
            [
                Ranges(tiles.pairs, self.firsts[tiles.low], self.firsts[tiles.high]),
                Ranges(blocks.pairs, of_blocks.low[blocks.low], of_blocks.high[blocks.high - 1]),
                pieces.events,
            ]
        )
        by_pair = np.argsort(every.pairs, kind="stable")
        return every.only(by_pair)
