"""`hr.sum`: the sum of a column, exact for integers."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction, MergedColumns
from headrace.aggregates.exact_sum import ExactSum
from headrace.aggregates.partial import (
    INT64_MAX,
    INT64_MIN,
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
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.declare.features.aggregate_rules import NUMBER_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind

LOW_32_BITS = 0xFFFFFFFF


def sum(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sum of a column; integers are summed exactly."""
    return AggregateDeclaration(Sum.name, column, where, windows, hop)


@dataclass(frozen=True)
class IntSumPartial(Partial):
    """The sum of integers in two halves, so that no sum exceeds 64 bits."""

    name = "int_sum"
    columns = (("hi", ColumnBlock.INT_ADD), ("lo", ColumnBlock.INT_ADD))

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        return {"hi": runs.sum_per_tile(data >> 32, mask), "lo": runs.sum_per_tile(data & LOW_32_BITS, mask)}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        low = value.bitwiseAND(spark.lit(LOW_32_BITS))
        return {"hi": spark.sum(spark.shiftright(value, 32)), "lo": spark.sum(low)}

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        data = np.where(values.valid, values.data, 0)
        return {"hi": FoldColumn(data >> 32, np.add, 0), "lo": FoldColumn(data & LOW_32_BITS, np.add, 0)}


@dataclass(frozen=True)
class FloatSumPartial(Partial):
    """The sum of doubles."""

    name = "float_sum"
    columns = (("s", ColumnBlock.FLOAT_ADD),)
    is_rounded = True

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        return {"s": runs.sum_per_tile(data, mask)}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        return {"s": spark.sum(value)}

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        return {"s": FoldColumn(np.where(values.valid, values.data, 0.0), np.add, 0.0)}


def sum_partial(kind: Kind | None) -> Partial:
    """The partial for the sum of a column."""
    return IntSumPartial() if kind is Kind.INTEGER else FloatSumPartial()


def exact_totals(merged: MergedColumns) -> Data:
    """Exact sums of integers: Python integers where one does not fit 64 bits."""
    high = merged["hi"] + (merged["lo"] >> 32)
    if ((high >= -(1 << 31)) & (high < 1 << 31)).all():
        totals: Data = (high << 32) + (merged["lo"] & LOW_32_BITS)
        return totals
    exact: Data = (merged["hi"].astype(object) << 32) + merged["lo"].astype(object)
    return exact


@register_aggregate
class Sum(AggregateFunction):
    """The sum of a column."""

    name = "sum"
    usage = "hr.sum(c)"
    gives = "int of a whole-number column, exact and without overflow; else float"
    is_additive = True

    def result_type(self, kind: Kind | None) -> ResultType:
        return ResultType(Kind.INTEGER, is_unbounded=True) if kind is Kind.INTEGER else NUMBER_TYPE

    def partial(self, kind: Kind | None) -> Partial:
        return sum_partial(kind)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c = columns["c"]
        if aggregate.kind is not Kind.INTEGER:
            s = columns["s"]
            return lambda merged, _: merged[s] if merged[c] else None
        hi, lo = columns["hi"], columns["lo"]
        return lambda merged, _: (merged[hi] << 32) + merged[lo] if merged[c] else None

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        totals = exact_totals(merged) if aggregate.kind is Kind.INTEGER else merged["s"]
        return ValueColumn(totals, merged["c"] >= 1)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return SumAccumulator(aggregate)


class SumAccumulator:
    """The exact sum and the number of values; an integer sum that exceeds 64 bits is null."""

    __slots__ = ("aggregate", "count", "sum")

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate, self.count, self.sum = aggregate, 0, ExactSum()

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        self.count += 1
        self.sum.add(value)

    def merge(self, other: Self) -> None:
        self.count += other.count
        self.sum.merge(other.sum)

    def result(self) -> float | None:
        if not self.count:
            return None
        if self.aggregate.kind is Kind.INTEGER:
            return self.sum.numerator if INT64_MIN <= self.sum.numerator <= INT64_MAX else None
        return self.sum.divide_by(1)

    def encode_state(self) -> list[Any]:
        return [self.count, self.sum.encode_state()]

    def restore_state(self, encoded: list[Any]) -> None:
        self.count, self.sum = encoded[0], ExactSum.decode_state(encoded[1])
