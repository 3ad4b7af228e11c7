"""`hr.skewness`: the sample skewness of a column, which shows on which side its outliers lie."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction
from headrace.aggregates.exact_sum import ExactSum, quotient
from headrace.aggregates.partial import (
    AggregateSlot,
    ColumnBlock,
    Finisher,
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

# Below this spread relative to the mean, doubles cannot distinguish the shape from rounding errors.
LEAST_RELATIVE_SPREAD = 1e-6


def skewness(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sample skewness of a column; null below three values, and if they are practically equal."""
    return AggregateDeclaration(Skewness.name, column, where, windows, hop)


@dataclass(frozen=True)
class ThirdMomentPartial(Partial):
    """The mean, and the sums of squared and cubed deviations from it."""

    name = "third_moment"
    columns = tuple((suffix, ColumnBlock.FLOAT_STATEFUL) for suffix in ("mean", "m2", "m3"))
    needs_window_events = True
    is_rounded = True

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        mean = runs.sum_per_tile(data.astype(np.float64), mask) / np.maximum(runs.count_per_tile(mask), 1)
        deviation = data - runs.repeat_per_event(mean)
        squares = deviation * deviation
        return {
            "mean": mean,
            "m2": runs.sum_per_tile(squares, mask),
            "m3": runs.sum_per_tile(squares * deviation, mask),
        }

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        """Spark returns m3 / n over (m2 / n)^1.5; of equal values that is null."""
        number = value.cast("double")
        variance = spark.var_pop(number)
        cubes = spark.skewness(number) * variance * spark.sqrt(variance) * spark.count(number)
        return {
            "mean": spark.avg(number),
            "m2": variance * spark.count(number),
            "m3": spark.when(variance > 0, cubes).otherwise(spark.lit(0.0)),
        }

    def stateful_merge(self, slot: AggregateSlot, columns: Mapping[str, ColumnPosition]) -> StatefulMerge:
        return ThirdMomentMerge(columns["c"], columns["mean"], columns["m2"], columns["m3"])


class ThirdMomentMerge(NamedTuple):
    """The moments of n values from those of parts, whose means differ by d from the total: Σm3 + 3 Σd m2 + Σn d³."""

    c: ColumnPosition
    mean: ColumnPosition
    m2: ColumnPosition
    m3: ColumnPosition

    def merge_scalars(self, _: Column, columns: Sequence[Column]) -> tuple[float, ...]:
        counts, means, squares, cubes = (columns[one.unpacked] for one in self)
        total_mean = float_sum([count * mean for count, mean in zip(counts, means, strict=True)]) / (sum(counts) or 1)
        m2, m3 = [], []
        for count, mean, m2_part, m3_part in zip(counts, means, squares, cubes, strict=True):
            d = mean - total_mean if count else 0.0
            m2.append(m2_part + count * d * d)
            m3.append(m3_part + d * (3 * m2_part + count * d * d))
        return total_mean, float_sum(m2), float_sum(m3)

    def merge_arrays(self, rows: RowArrays) -> tuple[float, ...]:
        c, mean, m2, m3 = rows.ints[:, self.c.in_row], *(rows.floats[:, one.in_row] for one in self[1:])
        total_mean = c.dot(mean) / (np.add.reduce(c) or 1)
        d = np.where(c > 0, mean - total_mean, 0.0)
        between = c * d * d
        return float(total_mean), float(np.add.reduce(m2 + between)), float(np.add.reduce(m3 + d * (3 * m2 + between)))


def _sample_skewness(count: int, mean: float, m2: float, m3: float) -> float | None:
    """The adjusted Fisher-Pearson coefficient, as in pandas and spreadsheets."""
    if count < 3:
        return None
    if not math.isfinite(m2) or not math.isfinite(m3):
        return math.nan
    if math.sqrt(m2 / count) <= LEAST_RELATIVE_SPREAD * abs(mean):
        return None
    return count * math.sqrt(count - 1) / (count - 2) * (m3 / m2 / math.sqrt(m2))


def _exact_skewness(count: int, *moments: Fraction) -> float | None:
    return _sample_skewness(count, *(quotient(*moment.as_integer_ratio()) for moment in moments))


@register_aggregate
class Skewness(AggregateFunction):
    """The sample skewness."""

    name = "skewness"
    usage = "hr.skewness(c)"
    gives = "float: the skewness of a sample; above 0 where the values far out lie above the mean"
    of_nothing = "null below three values, and where they differ by less than a millionth of their mean"

    def result_type(self, kind: Kind | None) -> ResultType:
        return NUMBER_TYPE

    def partial(self, kind: Kind | None) -> Partial:
        return ThirdMomentPartial()

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c, mean, m2, m3 = (columns[suffix] for suffix in ("c", "mean", "m2", "m3"))
        return lambda merged, _: _sample_skewness(merged[c], merged[mean], merged[m2], merged[m3])

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
        values, is_valid = np.zeros(window_events.pair_count), np.zeros(window_events.pair_count, np.bool_)
        for chunk in window_events.split_into_chunks():
            pairs, entries = np.unique(chunk.pairs, return_inverse=True)
            numbers, counts = chunk.data.astype(np.float64), np.bincount(entries)
            means = np.bincount(entries, numbers) / counts
            deviations = numbers - means[entries]
            m2, m3 = (np.bincount(entries, deviations**power) for power in (2, 3))
            moments = zip(counts.tolist(), means.tolist(), m2.tolist(), m3.tolist(), strict=True)
            for pair, moment in zip(pairs.tolist(), moments, strict=True):
                skewness = _sample_skewness(*moment)
                values[pair], is_valid[pair] = skewness or 0.0, skewness is not None
        return ValueColumn(values, is_valid)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return SkewnessAccumulator()

    def by_definition(self, values: Sequence[Any]) -> float | None:
        if len(values) < 3:
            return None
        if not all(map(math.isfinite, values)):
            return math.nan
        exact = [Fraction(value) for value in values]
        mean = sum(exact, Fraction()) / len(exact)
        m2, m3 = (sum(((value - mean) ** power for value in exact), Fraction()) for power in (2, 3))
        return _exact_skewness(len(exact), mean, m2, m3)


class SkewnessAccumulator:
    """The exact sums of values, of their squares and of their cubes."""

    __slots__ = ("count", "sums")

    def __init__(self) -> None:
        self.count, self.sums = 0, [ExactSum(), ExactSum(), ExactSum()]

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        self.count += 1
        for power, exact_sum in enumerate(self.sums, 1):
            exact_sum.add_power(value, power)

    def merge(self, other: Self) -> None:
        self.count += other.count
        for own, others in zip(self.sums, other.sums, strict=True):
            own.merge(others)

    def result(self) -> float | None:
        if self.count < 3:
            return None
        if self.sums[0].non_finite != 0:
            return math.nan
        total, squares, cubes = (exact_sum.to_fraction() for exact_sum in self.sums)
        mean = total / self.count
        m2 = squares - mean * total
        m3 = cubes - 3 * mean * squares + 2 * mean * mean * total
        return _exact_skewness(self.count, mean, m2, m3)

    def encode_state(self) -> list[Any]:
        return [self.count, [exact_sum.encode_state() for exact_sum in self.sums]]

    def restore_state(self, encoded: list[Any]) -> None:
        self.count, self.sums = encoded[0], [ExactSum.decode_state(one) for one in encoded[1]]
