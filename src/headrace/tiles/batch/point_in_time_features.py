"""Point-in-time features of many (entity, time) pairs at once, for training sets.

The same tiles and windows as online, without a Python step for each entity: every window is a few ranges of folded
values (`window_ranges`), and a feature is a reduction of those ranges.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from headrace.aggregates.aggregate_function import aggregate_function, to_slot
from headrace.aggregates.partial import AggregateSlot, FoldColumn
from headrace.aggregates.value_columns import Data, MapColumn, ValueColumn
from headrace.declare.features.view import Feature, View
from headrace.tiles.batch.event_history import EntityTimePairs, EventHistory
from headrace.tiles.batch.ranged_events import RangedEvents
from headrace.tiles.batch.sorted_times import Ints
from headrace.tiles.batch.window_ranges import HopIndex, WindowRanges, concat_windows
from headrace.tiles.layout import hop_layouts


def compute_features(view: View, history: EventHistory, pairs: EntityTimePairs) -> dict[str, ValueColumn | MapColumn]:
    """Each feature's column: a value, k values or a map a pair; text, first and last encoded as in the history."""
    columns: dict[str, ValueColumn | MapColumn] = {}
    history = history.sort_by_time()
    for hop_us in {feature.window.hop_us for feature in view.features}:
        features = [feature for feature in view.features if feature.window.hop_us == hop_us]
        with np.errstate(all="ignore"):
            columns |= _compute_hop_features(features, history, pairs, hop_us)
    return {feature.name: columns[feature.name] for feature in view.features}


def _compute_hop_features(
    features: Sequence[Feature], history: EventHistory, pairs: EntityTimePairs, hop_us: int
) -> dict[str, ValueColumn | MapColumn]:
    if not len(history):
        return {feature.name: _empty_column(feature, len(pairs)) for feature in features}
    hop = HopIndex(history.group_ids, history.times_us, history.known_us, hop_us)
    slot_columns = _slot_columns(hop, history, {to_slot(feature.aggregate) for feature in features})
    columns: dict[str, ValueColumn | MapColumn] = {}
    for length_us in {feature.window.length_us for feature in features}:
        stream_windows = [
            _stream_windows(hop, pairs, length_us, stream, history.stream_count)
            for stream in range(history.stream_count)
        ]
        window = _WindowFeatures(hop, concat_windows(stream_windows), history, len(pairs))
        window_features = [feature for feature in features if feature.window.length_us == length_us]
        columns |= {
            feature.name: window.compute(feature, slot_columns[to_slot(feature.aggregate)])
            for feature in window_features
        }
    return columns


def _stream_windows(
    hop: HopIndex, pairs: EntityTimePairs, length_us: int, stream: int, stream_count: int
) -> WindowRanges:
    """The windows of some pairs over the events of one stream."""
    known_by_us = pairs.known_by(hop.hop_us, stream)
    return hop.find_windows(pairs.entities * stream_count + stream, pairs.at_us, known_by_us, length_us)


def count_window_events(view: View, history: EventHistory, pairs: EntityTimePairs) -> dict[tuple[int, int], Ints]:
    """How many events of each stream the longest window of each hop holds; by hop and stream number."""
    hop_streams = product(hop_layouts(view), range(history.stream_count))
    counts = {(layout.hop_us, stream): np.zeros(len(pairs), np.int64) for layout, stream in hop_streams}
    history = history.sort_by_time()
    for layout in hop_layouts(view) if len(history) else ():
        hop = HopIndex(history.group_ids, history.times_us, history.known_us, layout.hop_us)
        for stream in range(history.stream_count):
            windows = _stream_windows(hop, pairs, layout.retention_us - layout.hop_us, stream, history.stream_count)
            ranges = hop.to_event_ranges(windows)
            np.add.at(counts[layout.hop_us, stream], ranges.pairs, ranges.high - ranges.low)
    return counts


def _empty_column(feature: Feature, count: int) -> ValueColumn | MapColumn:
    """The column of a feature without any event."""
    if feature.aggregate.is_map_valued:
        return MapColumn(*np.zeros((2, count), np.int64), *np.zeros((2, 0), np.int64))
    is_zero = not feature.aggregate.result_type.is_nullable
    shape = (count, feature.aggregate.k or 0) if feature.aggregate.is_list_valued else (count,)
    return ValueColumn(np.zeros(shape, np.int64), np.full(shape, is_zero))


def _fold_columns(slot: AggregateSlot, history: EventHistory) -> dict[str, FoldColumn]:
    """The columns of a slot, a number for each event."""
    values = history.columns[slot]
    counts = FoldColumn(values.valid.astype(np.int64), np.add, 0)
    return {"c": counts} | slot.partial.fold_history(values, history.entities)


class _SlotColumn:
    """One column of a slot: for each event, each block and each tile."""

    def __init__(self, hop: HopIndex, fold_column: FoldColumn) -> None:
        self.reduction, self.identity = fold_column.reduction, fold_column.identity
        self.events = fold_column.data[hop.order]
        self.tiles = self.reduction.reduceat(self.events, hop.first_events[:-1])
        self.blocks = hop.block_ranges.reduce(self.reduction, self.events)


def _slot_columns(
    hop: HopIndex, history: EventHistory, slots: set[AggregateSlot]
) -> dict[AggregateSlot, dict[str, _SlotColumn]]:
    """The columns of each slot; slots with the same column and condition share their counts."""
    columns_by_key: dict[tuple[object, ...], _SlotColumn] = {}
    slot_columns: dict[AggregateSlot, dict[str, _SlotColumn]] = {}
    for slot in slots:
        columns = {} if slot.partial.needs_window_events else _fold_columns(slot, history)
        slot_columns[slot] = {}
        for suffix, fold_column in columns.items():
            key = (slot.column, slot.where) if suffix == "c" else (slot, suffix)
            if key not in columns_by_key:
                columns_by_key[key] = _SlotColumn(hop, fold_column)
            slot_columns[slot][suffix] = columns_by_key[key]
    return slot_columns


class _WindowFeatures:
    """The windows of one length, merged for each pair."""

    def __init__(self, hop: HopIndex, ranges: WindowRanges, history: EventHistory, pair_count: int) -> None:
        self._hop, self._ranges, self._history, self._pair_count = hop, ranges, history, pair_count
        self._order = np.argsort(ranges.pairs, kind="stable")
        sorted_pairs = ranges.pairs[self._order]
        self._first_ranges = np.flatnonzero(np.diff(sorted_pairs, prepend=-1))
        self._pairs = sorted_pairs[self._first_ranges]
        self._merged_columns: dict[_SlotColumn, Data] = {}

    def compute(self, feature: Feature, slot_columns: dict[str, _SlotColumn]) -> ValueColumn | MapColumn:
        slot, function = to_slot(feature.aggregate), aggregate_function(feature.aggregate.function)
        if slot.partial.needs_window_events:
            return function.compute_history(feature.aggregate, self._window_events(slot))
        merged = {suffix: self._merge_cached(slot_column) for suffix, slot_column in slot_columns.items()}
        slot.partial.refine_history(merged, partial(self._window_events, slot))
        return function.finish_history(feature.aggregate, merged)

    def _merge_cached(self, slot_column: _SlotColumn) -> Data:
        """A merged column of the windows; features that share it read the same one."""
        if slot_column not in self._merged_columns:
            self._merged_columns[slot_column] = self._merge(slot_column)
        return self._merged_columns[slot_column]

    def _merge(self, slot_column: _SlotColumn) -> Data:
        window_ranges = self._ranges
        reduced = np.concatenate(
            [
                window_ranges.tiles.reduce(slot_column.reduction, slot_column.tiles),
                window_ranges.blocks.reduce(slot_column.reduction, slot_column.blocks),
                window_ranges.events.reduce(slot_column.reduction, slot_column.events),
            ]
        )
        merged = np.full(self._pair_count, slot_column.identity, slot_column.events.dtype)
        if len(reduced):
            merged[self._pairs] = slot_column.reduction.reduceat(reduced[self._order], self._first_ranges)
        return merged

    def _window_events(self, slot: AggregateSlot) -> RangedEvents:
        history, ranges = self._history, self._hop.to_event_ranges(self._ranges)
        return RangedEvents(self._hop, ranges, history.times_us, history.columns[slot], self._pair_count)
