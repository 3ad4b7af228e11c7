"""The features of many (entity, time) pairs at once: what a training set is made of.

The same tiles and windows as online, without a step of Python an entity: every window is a few ranges of what was
folded before (`pieces`), and a feature is a reduction of those ranges.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from headrace.declare.views import Feature, View
from headrace.tiles.columns import Data, Maps, Values
from headrace.tiles.folds import FINISHES, Folded, Merged, folds_of
from headrace.tiles.history import History, Pairs
from headrace.tiles.layout import Partial, Slot, layouts_of, slot_of
from headrace.tiles.pieces import Hop, Pieces, merged
from headrace.tiles.spread import SPREAD, Spread
from headrace.tiles.timeline import Ints


def values_at(view: View, history: History, pairs: Pairs) -> dict[str, Values | Maps]:
    """Each feature's column: a value a pair, k or a map; text, first and last as they stand in the history."""
    found: dict[str, Values | Maps] = {}
    history = history.sorted()
    for hop_us in {feature.window.hop_us for feature in view.features}:
        features = [feature for feature in view.features if feature.window.hop_us == hop_us]
        with np.errstate(all="ignore"):
            found |= _at_hop(features, history, pairs, hop_us)
    return {feature.name: found[feature.name] for feature in view.features}


def _at_hop(features: Sequence[Feature], history: History, pairs: Pairs, hop_us: int) -> dict[str, Values | Maps]:
    if not len(history):
        return {feature.name: _nothing(feature, len(pairs)) for feature in features}
    hop = Hop(history.owners, history.times_us, history.known_us, hop_us)
    levels = _levels(hop, history, {slot_of(feature.aggregate) for feature in features})
    found: dict[str, Values | Maps] = {}
    for length_us in {feature.window.length_us for feature in features}:
        of_streams = [_windows(hop, pairs, length_us, stream, history.streams) for stream in range(history.streams)]
        window = _Window(hop, merged(of_streams), history, len(pairs))
        mine = [feature for feature in features if feature.window.length_us == length_us]
        found |= {feature.name: window.value(feature, levels[slot_of(feature.aggregate)]) for feature in mine}
    return found


def _windows(hop: Hop, pairs: Pairs, length_us: int, stream: int, streams: int) -> Pieces:
    """The windows of some pairs, of what one of so many streams has in them."""
    known_by_us = pairs.known_by(hop.hop_us, stream)
    return hop.windows(pairs.owners * streams + stream, pairs.at_us, known_by_us, length_us)


def events_at(view: View, history: History, pairs: Pairs) -> dict[tuple[int, int], Ints]:
    """How many events of each stream the longest window of each hop holds; by hop and number of the stream."""
    kinds = product(layouts_of(view), range(history.streams))
    found = {(layout.hop_us, stream): np.zeros(len(pairs), np.int64) for layout, stream in kinds}
    history = history.sorted()
    for layout in layouts_of(view) if len(history) else ():
        hop = Hop(history.owners, history.times_us, history.known_us, layout.hop_us)
        for stream in range(history.streams):
            windows = _windows(hop, pairs, layout.keep_us - layout.hop_us, stream, history.streams)
            ranges = hop.event_ranges(windows)
            np.add.at(found[layout.hop_us, stream], ranges.pairs, ranges.high - ranges.low)
    return found


def _nothing(feature: Feature, count: int) -> Values | Maps:
    """The column of a feature where nothing ever happened."""
    if feature.aggregate.gives_a_map:
        return Maps(*np.zeros((2, count), np.int64), *np.zeros((2, 0), np.int64))
    is_zero = feature.aggregate.function in {"count", "distinct"}
    shape = (count, feature.aggregate.k or 0) if feature.aggregate.gives_a_list else (count,)
    return Values(np.zeros(shape, np.int64), np.full(shape, is_zero))


class _Level:
    """One column of a slot: of each event, each block and each tile."""

    def __init__(self, hop: Hop, folded: Folded) -> None:
        self.reduction, self.identity = folded.reduction, folded.identity
        self.events = folded.data[hop.order]
        self.tiles = self.reduction.reduceat(self.events, hop.firsts[:-1])
        self.blocks = hop.block_ranges.reduced(self.reduction, self.events)


def _levels(hop: Hop, history: History, slots: set[Slot]) -> dict[Slot, dict[str, _Level]]:
    """The columns of each slot; those of one column and condition share how many values they have."""
    shared: dict[tuple[object, ...], _Level] = {}
    found: dict[Slot, dict[str, _Level]] = {}
    for slot in slots:
        folds = {} if slot.partial in SPREAD else folds_of(slot, history.columns[slot], history.entities)
        found[slot] = {}
        for suffix, folded in folds.items():
            what = (slot.column, slot.where) if suffix == "c" else (slot, suffix)
            if what not in shared:
                shared[what] = _Level(hop, folded)
            found[slot][suffix] = shared[what]
    return found


class _Window:
    """The windows of one length: every pair's pieces, merged."""

    def __init__(self, hop: Hop, pieces: Pieces, history: History, count: int) -> None:
        self._hop, self._pieces, self._history, self._count = hop, pieces, history, count
        self._order = np.argsort(pieces.pairs, kind="stable")
        ordered = pieces.pairs[self._order]
        self._firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self._pairs = ordered[self._firsts]
        self._merges: dict[_Level, Data] = {}

    def value(self, feature: Feature, levels: dict[str, _Level]) -> Values | Maps:
        slot = slot_of(feature.aggregate)
        if slot.partial in SPREAD:
            return SPREAD[slot.partial](feature.aggregate, self._spread(slot))
        merged = {suffix: self._merge_once(level) for suffix, level in levels.items()}
        if slot.partial is Partial.MOMENTS:
            self._mend_moments(slot, merged)
        return FINISHES[slot.partial, feature.aggregate.function](merged)

    def _merge_once(self, level: _Level) -> Data:
        """A column of the windows; features that share it read the same one."""
        if level not in self._merges:
            self._merges[level] = self._merged(level)
        return self._merges[level]

    def _merged(self, level: _Level) -> Data:
        pieces = self._pieces
        found = np.concatenate(
            [
                pieces.tiles.reduced(level.reduction, level.tiles),
                pieces.blocks.reduced(level.reduction, level.blocks),
                pieces.events.reduced(level.reduction, level.events),
            ]
        )
        merged = np.full(self._count, level.identity, level.events.dtype)
        if len(found):
            merged[self._pairs] = level.reduction.reduceat(found[self._order], self._firsts)
        return merged

    def _mend_moments(self, slot: Slot, merged: Merged) -> None:
        """Where the squares about the entity's mean say too little about those about the window's: from the events."""
        m2 = merged["d2"] - merged["d"] * merged["d"] / np.maximum(merged["c"], 1)
        unsure = (merged["c"] > 1) & (merged["d2"] != 0) & ~(m2 > 1e-6 * merged["d2"])
        if unsure.any():
            m2[unsure] = self._spread(slot).only(unsure).squared_deviations()[unsure]
        merged["m2"] = m2

    def _spread(self, slot: Slot) -> Spread:
        history, ranges = self._history, self._hop.event_ranges(self._pieces)
        return Spread(self._hop, ranges, history.times_us, history.columns[slot], self._count)
