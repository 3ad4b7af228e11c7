"""Features that need the very events of a window: spread out, a piece of the pairs at a time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from headrace.declare.aggregates import Aggregate
from headrace.declare.sketch_sizes import sketch_lg_k
from headrace.tiles.columns import Data, Maps, Mask, Values
from headrace.tiles.layout import INT64_MIN, Partial
from headrace.tiles.pieces import Hop, Ranges
from headrace.tiles.sketches import distinct_of, most_coupons
from headrace.tiles.timeline import Ints

AT_ONCE = 4_000_000


class Part(NamedTuple):
    """Some pairs, the events of their windows that count, and what of each is folded."""

    pairs: Ints
    tiles: Ints
    times_us: Ints
    data: Data


@dataclass(frozen=True)
class Spread:
    """The windows of pairs as ranges of events."""

    hop: Hop
    ranges: Ranges
    times_us: Ints
    values: Values
    count: int

    def only(self, which: Mask) -> "Spread":
        """Of some pairs alone."""
        return replace(self, ranges=self.ranges.only(which[self.ranges.pairs]))

    def parts(self) -> Iterator[Part]:
        """All of it, so much at a time as fits memory; a pair is never divided."""
        valid = self.values.valid[self.hop.order]
        for some in _at_once(self.ranges):
            pairs, places = some.spread()
            counts = valid[places]
            pairs, places = pairs[counts], places[counts]
            events = self.hop.order[places]
            yield Part(pairs, self.hop.tile_of[places], self.times_us[events], self.values.data[events])

    def squared_deviations(self) -> Data:
        """The sum of squared deviations from each window's mean."""
        found = np.zeros(self.count)
        for part in self.parts():
            numbers = part.data.astype(np.float64)
            counts = np.maximum(np.bincount(part.pairs, minlength=self.count), 1)
            means = np.bincount(part.pairs, numbers, self.count) / counts
            deviations = numbers - means[part.pairs]
            found += np.bincount(part.pairs, deviations * deviations, self.count)
        return found


def _at_once(ranges: Ranges) -> Iterator[Ranges]:
    sizes = np.cumsum(ranges.high - ranges.low)
    last_of_pair = np.append(np.flatnonzero(np.diff(ranges.pairs)), len(ranges.pairs) - 1)
    begin = 0
    while begin < len(sizes):
        before = sizes[begin - 1] if begin else 0
        fitting = np.searchsorted(sizes, before + AT_ONCE, side="right")
        ends = last_of_pair[(last_of_pair >= begin)]
        end = int(ends[max(0, np.searchsorted(ends, fitting) - 1)]) + 1
        yield Ranges(ranges.pairs[begin:end], ranges.low[begin:end], ranges.high[begin:end])
        begin = end


def _distinct(aggregate: Aggregate, spread: Spread) -> Values:
    """Coupons counted, as online; a window with a tile too full for them is estimated from all of them."""
    lg_k = sketch_lg_k(aggregate.error or 0.0)
    found = np.zeros(spread.count, np.int64)
    for part in spread.parts():
        different = np.unique(part.pairs << 32 | part.data)
        counts = np.bincount(different >> 32, minlength=spread.count)
        found += counts
        for pair in _pairs_with_a_full_tile(part, counts > most_coupons(lg_k), lg_k):
            mine = different[np.searchsorted(different, pair << 32) : np.searchsorted(different, (pair + 1) << 32)]
            found[pair] = distinct_of((mine & 0xFFFFFFFF).astype(np.uint32), lg_k)
    return Values(found, np.ones(spread.count, np.bool_))


def _pairs_with_a_full_tile(part: Part, suspects: Mask, lg_k: int) -> list[int]:
    if not suspects.any():
        return []
    mine = suspects[part.pairs]
    different = np.unique(np.stack([part.pairs[mine], part.tiles[mine], part.data[mine]]), axis=1)
    tiles, counts = np.unique(different[:2], axis=1, return_counts=True)
    return np.unique(tiles[0][counts > most_coupons(lg_k)]).tolist()  # type: ignore[no-any-return]  # ints


def _quantile(aggregate: Aggregate, spread: Spread) -> Values:
    """By its definition: online the sketches of busy tiles may be off by the stated error."""
    found, there = np.zeros(spread.count), np.zeros(spread.count, np.bool_)
    for part in spread.parts():
        numbers = part.data.astype(np.float64)
        real = ~np.isnan(numbers)
        order = np.lexsort((numbers[real], part.pairs[real]))
        pairs, numbers = part.pairs[real][order], numbers[real][order]
        firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
        counts = np.diff(firsts, append=len(pairs))
        wanted = [max(1, math.ceil((aggregate.share or 0.0) * count)) - 1 for count in counts.tolist()]
        found[pairs[firsts]] = numbers[firsts + np.array(wanted, np.int64)]
        there[pairs[firsts]] = True
    return Values(found, there)


def _decayed_mean(aggregate: Aggregate, spread: Spread) -> Values:
    """Weighted as of the newest event: another time would multiply both sums alike."""
    found, there = np.zeros(spread.count), np.zeros(spread.count, np.bool_)
    for part in spread.parts():
        newest_us = np.full(spread.count, INT64_MIN)
        np.maximum.at(newest_us, part.pairs, part.times_us)
        weights = np.exp2((part.times_us - newest_us[part.pairs]) / (aggregate.halflife_us or 1))
        numbers = part.data.astype(np.float64)
        # An infinity has no weight: of one long ago it would be 0, and the two make NaN.
        weighted = np.where(np.isfinite(numbers), numbers * weights, numbers)
        pairs = np.unique(part.pairs)
        sums, total = (np.bincount(part.pairs, column, spread.count)[pairs] for column in (weighted, weights))
        found[pairs], there[pairs] = sums / total, True
    return Values(found, there)


class Counted(NamedTuple):
    """The different values of some pairs, pair by pair, most frequent first; and where each pair's begin."""

    pairs: Ints
    values: Data
    counts: Ints
    firsts: Ints

    @property
    def sizes(self) -> Ints:
        return np.diff(self.firsts, append=len(self.pairs))


def _counted(part: Part) -> Counted:
    """By exact counts; online those of tiles with very many different values may be short."""
    different, codes = np.unique(part.data, return_inverse=True)
    keys, counts = np.unique(part.pairs * len(different) + codes, return_counts=True)
    pairs, codes = np.divmod(keys, max(1, len(different)))
    order = np.lexsort((codes, -counts, pairs))
    pairs = pairs[order]
    return Counted(pairs, different[codes[order]], counts[order], np.flatnonzero(np.diff(pairs, prepend=-1)))


def _frequent(aggregate: Aggregate, spread: Spread) -> Values | Maps:
    return _counts_by_value(spread) if aggregate.gives_a_map else _top(aggregate, spread)


def _top(aggregate: Aggregate, spread: Spread) -> Values:
    """Up to k columns a pair."""
    most = aggregate.k or 0
    found, there = np.zeros((spread.count, most), np.int64), np.zeros((spread.count, most), np.bool_)
    for part in spread.parts():
        counted = _counted(part)
        places = np.arange(len(counted.pairs)) - np.repeat(counted.firsts, counted.sizes)
        among = places < most
        found[counted.pairs[among], places[among]] = counted.values[among]
        there[counted.pairs[among], places[among]] = True
    return Values(found, there)


def _counts_by_value(spread: Spread) -> Maps:
    """A map a pair, of as many entries as it has different values."""
    begins, sizes = np.zeros((2, spread.count), np.int64)
    keys, counts, before = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for part in spread.parts():
        counted = _counted(part)
        mine = counted.pairs[counted.firsts]
        begins[mine], sizes[mine] = before + counted.firsts, counted.sizes
        keys.append(counted.values)
        counts.append(counted.counts)
        before += len(counted.pairs)
    return Maps(begins, sizes, np.concatenate(keys), np.concatenate(counts))


SPREAD: dict[Partial, Callable[[Aggregate, Spread], Values | Maps]] = {
    Partial.DISTINCT: _distinct,
    Partial.QUANTILE: _quantile,
    Partial.DECAYED: _decayed_mean,
    Partial.TOP: _frequent,
}
