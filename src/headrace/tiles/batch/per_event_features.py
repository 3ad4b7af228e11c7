"""Features that need the very events of a window: spread out, a piece of the pairs at a time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from headrace.declare.features.aggregates import Aggregate
from headrace.declare.features.sketch_sizes import hyperloglog_lg_k
from headrace.tiles.batch.sorted_times import Ints
from headrace.tiles.batch.window_ranges import HopIndex, IndexRanges
from headrace.tiles.events.event_columns import Data, MapColumn, Mask, ValueColumn
from headrace.tiles.layout import INT64_MIN, Partial
from headrace.tiles.sketches.distinct_count import estimate_from_coupons, max_coupons

MAX_EVENTS_AT_ONCE = 4_000_000


class EventChunk(NamedTuple):
    """Some pairs, the events of their windows that count, and what of each is folded."""

    pairs: Ints
    tiles: Ints
    times_us: Ints
    data: Data


@dataclass(frozen=True)
class WindowEvents:
    """The windows of pairs as ranges of events."""

    hop: HopIndex
    ranges: IndexRanges
    times_us: Ints
    values: ValueColumn
    pair_count: int

    def select(self, is_selected: Mask) -> "WindowEvents":
        """Of some pairs alone."""
        return replace(self, ranges=self.ranges.select(is_selected[self.ranges.pairs]))

    def split_into_chunks(self) -> Iterator[EventChunk]:
        """All of it, so much at a time as fits memory; a pair is never divided."""
        valid = self.values.valid[self.hop.order]
        for chunk_ranges in _split_ranges(self.ranges):
            pairs, positions = chunk_ranges.expand()
            is_counted = valid[positions]
            pairs, positions = pairs[is_counted], positions[is_counted]
            events = self.hop.order[positions]
            yield EventChunk(pairs, self.hop.tile_numbers[positions], self.times_us[events], self.values.data[events])

    def squared_deviations(self) -> Data:
        """The sum of squared deviations from each window's mean."""
        totals = np.zeros(self.pair_count)
        for chunk in self.split_into_chunks():
            numbers = chunk.data.astype(np.float64)
            counts = np.maximum(np.bincount(chunk.pairs, minlength=self.pair_count), 1)
            means = np.bincount(chunk.pairs, numbers, self.pair_count) / counts
            deviations = numbers - means[chunk.pairs]
            totals += np.bincount(chunk.pairs, deviations * deviations, self.pair_count)
        return totals


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


def _distinct(aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
    """Coupons counted, as online; a window with a tile too full for them is estimated from all of them."""
    lg_k = hyperloglog_lg_k(aggregate.error or 0.0)
    estimates = np.zeros(window_events.pair_count, np.int64)
    for chunk in window_events.split_into_chunks():
        distinct_values = np.unique(chunk.pairs << 32 | chunk.data)
        counts = np.bincount(distinct_values >> 32, minlength=window_events.pair_count)
        estimates += counts
        for pair in _pairs_with_full_tile(chunk, counts > max_coupons(lg_k), lg_k):
            pair_values = distinct_values[
                np.searchsorted(distinct_values, pair << 32) : np.searchsorted(distinct_values, (pair + 1) << 32)
            ]
            estimates[pair] = estimate_from_coupons((pair_values & 0xFFFFFFFF).astype(np.uint32), lg_k)
    return ValueColumn(estimates, np.ones(window_events.pair_count, np.bool_))


def _pairs_with_full_tile(chunk: EventChunk, suspects: Mask, lg_k: int) -> list[int]:
    if not suspects.any():
        return []
    is_suspect = suspects[chunk.pairs]
    distinct_rows = np.unique(
        np.stack([chunk.pairs[is_suspect], chunk.tiles[is_suspect], chunk.data[is_suspect]]), axis=1
    )
    tiles, counts = np.unique(distinct_rows[:2], axis=1, return_counts=True)
    return np.unique(tiles[0][counts > max_coupons(lg_k)]).tolist()  # type: ignore[no-any-return]  # ints


def _quantile(aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
    """By its definition: online the sketches of busy tiles may be off by the stated error."""
    quantiles, is_valid = np.zeros(window_events.pair_count), np.zeros(window_events.pair_count, np.bool_)
    for chunk in window_events.split_into_chunks():
        numbers = chunk.data.astype(np.float64)
        is_number = ~np.isnan(numbers)
        order = np.lexsort((numbers[is_number], chunk.pairs[is_number]))
        pairs, numbers = chunk.pairs[is_number][order], numbers[is_number][order]
        firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
        counts = np.diff(firsts, append=len(pairs))
        ranks = [max(1, math.ceil((aggregate.share or 0.0) * count)) - 1 for count in counts.tolist()]
        quantiles[pairs[firsts]] = numbers[firsts + np.array(ranks, np.int64)]
        is_valid[pairs[firsts]] = True
    return ValueColumn(quantiles, is_valid)


def _decayed_mean(aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
    """Weighted as of the newest event: another time would multiply both sums alike."""
    means, is_valid = np.zeros(window_events.pair_count), np.zeros(window_events.pair_count, np.bool_)
    for chunk in window_events.split_into_chunks():
        newest_us = np.full(window_events.pair_count, INT64_MIN)
        np.maximum.at(newest_us, chunk.pairs, chunk.times_us)
        weights = np.exp2((chunk.times_us - newest_us[chunk.pairs]) / (aggregate.halflife_us or 1))
        numbers = chunk.data.astype(np.float64)
        # An infinity has no weight: of one long ago it would be 0, and the two make NaN.
        weighted = np.where(np.isfinite(numbers), numbers * weights, numbers)
        pairs = np.unique(chunk.pairs)
        sums, total = (
            np.bincount(chunk.pairs, column, window_events.pair_count)[pairs] for column in (weighted, weights)
        )
        means[pairs], is_valid[pairs] = sums / total, True
    return ValueColumn(means, is_valid)


class ValueCounts(NamedTuple):
    """The different values of some pairs, pair by pair, most frequent first; and where each pair's begin."""

    pairs: Ints
    values: Data
    counts: Ints
    first_indices: Ints

    @property
    def sizes(self) -> Ints:
        return np.diff(self.first_indices, append=len(self.pairs))


def _count_values(chunk: EventChunk) -> ValueCounts:
    """By exact counts; online those of tiles with very many different values may be short."""
    distinct_values, codes = np.unique(chunk.data, return_inverse=True)
    keys, counts = np.unique(chunk.pairs * len(distinct_values) + codes, return_counts=True)
    pairs, codes = np.divmod(keys, max(1, len(distinct_values)))
    order = np.lexsort((codes, -counts, pairs))
    pairs = pairs[order]
    return ValueCounts(pairs, distinct_values[codes[order]], counts[order], np.flatnonzero(np.diff(pairs, prepend=-1)))


def _frequent(aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn | MapColumn:
    return _counts_by_value(window_events) if aggregate.is_map_valued else _top(aggregate, window_events)


def _top(aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
    """Up to k columns a pair."""
    k = aggregate.k or 0
    top_values, is_valid = (
        np.zeros((window_events.pair_count, k), np.int64),
        np.zeros((window_events.pair_count, k), np.bool_),
    )
    for chunk in window_events.split_into_chunks():
        value_counts = _count_values(chunk)
        ranks = np.arange(len(value_counts.pairs)) - np.repeat(value_counts.first_indices, value_counts.sizes)
        is_top = ranks < k
        top_values[value_counts.pairs[is_top], ranks[is_top]] = value_counts.values[is_top]
        is_valid[value_counts.pairs[is_top], ranks[is_top]] = True
    return ValueColumn(top_values, is_valid)


def _counts_by_value(window_events: WindowEvents) -> MapColumn:
    """A map a pair, of as many entries as it has different values."""
    begins, sizes = np.zeros((2, window_events.pair_count), np.int64)
    keys, counts, entry_count = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for chunk in window_events.split_into_chunks():
        value_counts = _count_values(chunk)
        chunk_pairs = value_counts.pairs[value_counts.first_indices]
        begins[chunk_pairs], sizes[chunk_pairs] = entry_count + value_counts.first_indices, value_counts.sizes
        keys.append(value_counts.values)
        counts.append(value_counts.counts)
        entry_count += len(value_counts.pairs)
    return MapColumn(begins, sizes, np.concatenate(keys), np.concatenate(counts))


PER_EVENT_FEATURES: dict[Partial, Callable[[Aggregate, WindowEvents], ValueColumn | MapColumn]] = {
    Partial.DISTINCT: _distinct,
    Partial.QUANTILE: _quantile,
    Partial.DECAYED: _decayed_mean,
    Partial.TOP: _frequent,
}
