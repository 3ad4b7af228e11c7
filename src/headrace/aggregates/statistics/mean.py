"""`hr.mean`: the mean of a column."""

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction, MergedColumns
from headrace.aggregates.partial import Finisher, Partial, SlotColumns
from headrace.aggregates.statistics.sum import SumAccumulator, exact_totals, sum_partial
from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.features.aggregate_rules import NUMBER_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind

EXACT_DOUBLE = 1 << 53


def mean(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The mean of a column."""
    return AggregateDeclaration(Mean.name, column, where, windows, hop)


@register_aggregate
class Mean(AggregateFunction):
    """The mean of a column, from its sum and count."""

    name = "mean"
    usage = "hr.mean(c)"
    gives = "float; of whole numbers the exact sum, divided once"

    def result_type(self, kind: Kind | None) -> ResultType:
        return NUMBER_TYPE

    def partial(self, kind: Kind | None) -> Partial:
        return sum_partial(kind)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c = columns["c"]
        if aggregate.kind is not Kind.INTEGER:
            s = columns["s"]
            return lambda merged, _: merged[s] / merged[c] if merged[c] else None
        hi, lo = columns["hi"], columns["lo"]
        return lambda merged, _: ((merged[hi] << 32) + merged[lo]) / merged[c] if merged[c] else None

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        counts, has_values = np.maximum(merged["c"], 1), merged["c"] >= 1
        if aggregate.kind is not Kind.INTEGER:
            return ValueColumn(merged["s"] / counts, has_values)
        totals = exact_totals(merged)
        if (abs(totals) > EXACT_DOUBLE).any():  # Python's division, which rounds once
            totals, counts = totals.astype(object), counts.astype(object)
        return ValueColumn((totals / counts).astype(np.float64), has_values)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return MeanAccumulator(aggregate)


class MeanAccumulator(SumAccumulator):
    """The exact sum, divided once."""

    __slots__ = ()

    def result(self) -> float | None:
        return self.sum.divide_by(self.count) if self.count else None
