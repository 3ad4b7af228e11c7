"""`hr.var`: the sample variance of a column."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import ROUNDING_SHARE, AggregateFunction, MergedColumns
from headrace.aggregates.exact_sum import ExactSum, quotient
from headrace.aggregates.partial import (
    AggregateSlot,
    ColumnBlock,
    Finisher,
    FoldColumn,
    Ints,
    Partial,
    Scalar,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
    TileRuns,
)
from headrace.aggregates.stateful_merge import Column, ColumnPosition, RowArrays, StatefulMerge, float_sum
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.aggregates.window_events import WindowEvents
from headrace.declare.features.aggregate_rules import NUMBER_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind


def var(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sample variance of a column; null below two values."""
    return AggregateDeclaration(Var.name, column, where, windows, hop)


@dataclass(frozen=True)
class MomentsPartial(Partial):
    """The mean of values, and the sum of squared deviations from it."""

    name = "moments"
    columns = (("mean", ColumnBlock.FLOAT_STATEFUL), ("m2", ColumnBlock.FLOAT_STATEFUL))
    is_rounded = True

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        mean = runs.sum_per_tile(data.astype(np.float64), mask) / np.maximum(runs.count_per_tile(mask), 1)
        deviation = data - runs.repeat_per_event(mean)
        return {"mean": mean, "m2": runs.sum_per_tile(deviation * deviation, mask)}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        number = value.cast("double")
        return {"mean": spark.avg(number), "m2": spark.var_pop(number) * spark.count(number)}

    def stateful_merge(self, slot: AggregateSlot, columns: Mapping[str, ColumnPosition]) -> StatefulMerge:
        return MomentsMerge(columns["c"], columns["mean"], columns["m2"])

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        """Deviations from the entity's own mean: the sum of their squares does not lose precision."""
        data = values.data.astype(np.float64)
        finite = values.valid & np.isfinite(data)
        counts = np.maximum(np.bincount(entities, finite), 1)
        means = np.bincount(entities, np.where(finite, data, 0.0)) / counts
        deviations = np.where(values.valid, data - np.nan_to_num(means)[entities], 0.0)
        return {"d": FoldColumn(deviations, np.add, 0.0), "d2": FoldColumn(deviations * deviations, np.add, 0.0)}

    def refine_history(self, merged: MergedColumns, window_events: Callable[[], WindowEvents]) -> None:
        """Recompute from the events where squares about the entity's mean are too imprecise for the window's mean."""
        m2 = merged["d2"] - merged["d"] * merged["d"] / np.maximum(merged["c"], 1)
        is_imprecise = (merged["c"] > 1) & (merged["d2"] != 0) & ~(m2 > 1e-6 * merged["d2"])
        if is_imprecise.any():
            m2[is_imprecise] = squared_deviations(window_events().select(is_imprecise))[is_imprecise]
        merged["m2"] = m2


class MomentsMerge(NamedTuple):
    """The mean and squared deviations of n values, from the n, mean and m2 of parts (Chan et al.)."""

    c: ColumnPosition
    mean: ColumnPosition
    m2: ColumnPosition

    def merge_scalars(self, _: Column, columns: Sequence[Column]) -> tuple[float, ...]:
        c, mean, m2 = columns[self.c.unpacked], columns[self.mean.unpacked], columns[self.m2.unpacked]
        total_mean = float_sum([count * part_mean for count, part_mean in zip(c, mean, strict=True)]) / (sum(c) or 1)
        between_parts = [count * (part - total_mean) * (part - total_mean) for count, part in zip(c, mean, strict=True)]
        return total_mean, float_sum(m2) + float_sum(between_parts)

    def merge_arrays(self, rows: RowArrays) -> tuple[float, ...]:
        c, mean, m2 = rows.ints[:, self.c.in_row], rows.floats[:, self.mean.in_row], rows.floats[:, self.m2.in_row]
        total_mean = c.dot(mean) / (np.add.reduce(c) or 1)
        deviation = mean - total_mean
        return float(total_mean), float(np.add.reduce(m2) + (c * deviation).dot(deviation))


def squared_deviations(window_events: WindowEvents) -> Data:
    """The sum of squared deviations from each window's mean."""
    totals = np.zeros(window_events.pair_count)
    for chunk in window_events.split_into_chunks():
        numbers = chunk.data.astype(np.float64)
        counts = np.maximum(np.bincount(chunk.pairs, minlength=window_events.pair_count), 1)
        means = np.bincount(chunk.pairs, numbers, window_events.pair_count) / counts
        deviations = numbers - means[chunk.pairs]
        totals += np.bincount(chunk.pairs, deviations * deviations, window_events.pair_count)
    return totals


@register_aggregate
class Var(AggregateFunction):
    """The sample variance."""

    name = "var"
    usage = "hr.var(c)"
    gives = "float: the variance of a sample (n − 1)"
    of_nothing = "null below two values"

    def result_type(self, kind: Kind | None) -> ResultType:
        return NUMBER_TYPE

    def partial(self, kind: Kind | None) -> Partial:
        return MomentsPartial()

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c, m2 = columns["c"], columns["m2"]
        return lambda merged, _: merged[m2] / (merged[c] - 1) if merged[c] > 1 else None

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        return ValueColumn(merged["m2"] / np.maximum(merged["c"] - 1, 1), merged["c"] > 1)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return VarAccumulator()

    def rounding_tolerance(self, magnitudes: Data) -> float:
        return ROUNDING_SHARE * float((magnitudes**2).sum())


class VarAccumulator:
    """The exact sums of values and of their squares."""

    __slots__ = ("count", "sum", "sum_of_squares")

    def __init__(self) -> None:
        self.count, self.sum, self.sum_of_squares = 0, ExactSum(), ExactSum()

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        self.count += 1
        self.sum.add(value)
        self.sum_of_squares.add_power(value, 2)

    def merge(self, other: Self) -> None:
        self.count += other.count
        self.sum.merge(other.sum)
        self.sum_of_squares.merge(other.sum_of_squares)

    def result(self) -> float | None:
        if self.count < 2:
            return None
        return math.nan if self.sum.non_finite != 0 else self._variance()

    def _variance(self) -> float:
        """(n Σx² − (Σx)²) / (n (n − 1)), in whole numbers over one power of two."""
        bits = max(self.sum_of_squares.denominator_bits, 2 * self.sum.denominator_bits)
        sum_of_squares = self.sum_of_squares.numerator << (bits - self.sum_of_squares.denominator_bits)
        squared_sum = self.sum.numerator**2 << (bits - 2 * self.sum.denominator_bits)
        return quotient(self.count * sum_of_squares - squared_sum, self.count * (self.count - 1) << bits)

    def encode_state(self) -> list[Any]:
        return [self.count, self.sum.encode_state(), self.sum_of_squares.encode_state()]

    def restore_state(self, encoded: list[Any]) -> None:
        self.count = encoded[0]
        self.sum, self.sum_of_squares = ExactSum.decode_state(encoded[1]), ExactSum.decode_state(encoded[2])
