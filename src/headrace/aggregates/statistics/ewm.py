"""`hr.ewm`: the exponentially weighted mean of a column.

[tile][tile]      [tile]          a tile that ended a half-life before the newest one with a value counts half;
 × ¼   × ½         × 1            the time of reading does not matter, since it would multiply both sums
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headrace.aggregates.aggregate_function import AggregateFunction
from headrace.aggregates.partial import (
    INT64_MIN,
    AggregateSlot,
    ColumnBlock,
    Finisher,
    Partial,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
    TileRuns,
)
from headrace.aggregates.stateful_merge import Column, ColumnPosition, RowArrays, StatefulMerge, float_sum
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.aggregates.window_events import WindowEvents
from headrace.declare.durations import duration_us
from headrace.declare.features.aggregate_rules import NUMBER_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind


def ewm(
    column: str, *, halflife: str, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The exponentially weighted mean of a column: a value counts half as much as one a half-life later."""
    return AggregateDeclaration(Ewm.name, column, where, windows, hop, halflife=halflife)


@dataclass(frozen=True)
class DecayedPartial(Partial):
    """Weighted sums of values and of their weights: the weight halves for each half-life before the tile's end."""

    name = "decayed"
    columns = (("wx", ColumnBlock.FLOAT_STATEFUL), ("w", ColumnBlock.FLOAT_STATEFUL))
    is_rounded = True
    needs_window_events = True

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        weights = np.exp2((runs.times_us - runs.starts_us - runs.hop_us) / slot.size)
        return {"wx": runs.sum_per_tile(data * weights, mask), "w": runs.sum_per_tile(weights, mask)}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        before_end_us = spark.col("event_us") - spark.unix_micros("end")
        decay = spark.pow(spark.lit(2.0), before_end_us / spark.lit(float(slot.size)))
        weight = spark.when(value.isNotNull(), decay)
        return {"wx": spark.sum(value.cast("double") * weight), "w": spark.sum(weight)}

    def stateful_merge(self, slot: AggregateSlot, columns: Mapping[str, ColumnPosition]) -> StatefulMerge:
        return DecayedMerge(columns["c"], columns["wx"], columns["w"], slot.size)


class DecayedMerge(NamedTuple):
    """Sums of tiles, each as of its own end, as of the end of the newest with a value."""

    c: ColumnPosition
    wx: ColumnPosition
    w: ColumnPosition
    halflife_us: int

    def merge_scalars(self, starts: Column, columns: Sequence[Column]) -> tuple[float, ...]:
        c, wx, w = columns[self.c.unpacked], columns[self.wx.unpacked], columns[self.w.unpacked]
        parts = [(start, wx[row], w[row]) for row, start in enumerate(starts) if c[row]]
        if not parts:
            return 0.0, 0.0
        newest = max(start for start, _, _ in parts)
        weights = [2.0 ** ((start - newest) / self.halflife_us) for start, _, _ in parts]
        sums = [
            weighted_sum * weight if math.isfinite(weighted_sum) else weighted_sum
            for weight, (_, weighted_sum, _) in zip(weights, parts, strict=True)
        ]
        return float_sum(sums), float_sum(
            [weight_sum * weight for weight, (_, _, weight_sum) in zip(weights, parts, strict=True)]
        )

    def merge_arrays(self, rows: RowArrays) -> tuple[float, ...]:
        mask = rows.ints[:, self.c.in_row] > 0
        if not mask.any():
            return 0.0, 0.0
        starts, wx, w = rows.ints[mask, 0], rows.floats[mask, self.wx.in_row], rows.floats[mask, self.w.in_row]
        weights = np.exp2((starts - starts.max()) / self.halflife_us)
        # An infinite value is not weighted: the weight of an old one is 0, and 0 times infinity is NaN.
        sums = np.where(np.isfinite(wx), wx * weights, wx)
        return float(np.add.reduce(sums)), float(w.dot(weights))


@register_aggregate
class Ewm(AggregateFunction):
    """An exponentially weighted mean."""

    name = "ewm"
    usage = 'hr.ewm(c, halflife="1h")'
    gives = "float: the mean, where a value counts half as much as one a half-life later"
    why_not_windowed = (
        'a decaying mean has no end of a window to be emitted at. Write hr.mean("{column}"), or hr.ewm in a view.'
    )

    def result_type(self, kind: Kind | None) -> ResultType:
        return NUMBER_TYPE

    def require_options(self, declaration: AggregateDeclaration, where: str) -> None:
        duration_us(declaration.halflife, f"{where}: halflife")

    def partial(self, kind: Kind | None) -> Partial:
        return DecayedPartial()

    def size(self, aggregate: Aggregate) -> int:
        return aggregate.halflife_us or 0

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c, wx, w = columns["c"], columns["wx"], columns["w"]
        return lambda merged, _: merged[wx] / merged[w] if merged[c] else None

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
        """Weighted as of the newest event: another reference time would multiply both sums alike."""
        means, is_valid = np.zeros(window_events.pair_count), np.zeros(window_events.pair_count, np.bool_)
        for chunk in window_events.split_into_chunks():
            newest_us = np.full(window_events.pair_count, INT64_MIN)
            np.maximum.at(newest_us, chunk.pairs, chunk.times_us)
            weights = np.exp2((chunk.times_us - newest_us[chunk.pairs]) / (aggregate.halflife_us or 1))
            numbers = chunk.data.astype(np.float64)
            # An infinite value is not weighted: the weight of an old one is 0, and 0 times infinity is NaN.
            weighted = np.where(np.isfinite(numbers), numbers * weights, numbers)
            pairs = np.unique(chunk.pairs)
            sums, total = (
                np.bincount(chunk.pairs, column, window_events.pair_count)[pairs] for column in (weighted, weights)
            )
            means[pairs], is_valid[pairs] = sums / total, True
        return ValueColumn(means, is_valid)
