"""`hr.stddev`: the sample standard deviation of a column."""

import math

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction, MergedColumns
from headrace.aggregates.partial import Finisher, Partial, SlotColumns
from headrace.aggregates.statistics.var import MomentsPartial, VarAccumulator
from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.features.aggregate_rules import NUMBER_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind


def stddev(
    column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    """The sample standard deviation of a column; null below two values."""
    return AggregateDeclaration(Stddev.name, column, where, windows, hop)


@register_aggregate
class Stddev(AggregateFunction):
    """The root of the sample variance."""

    name = "stddev"
    usage = "hr.stddev(c)"
    gives = "float: the standard deviation of a sample (n − 1)"
    of_nothing = "null below two values"

    def result_type(self, kind: Kind | None) -> ResultType:
        return NUMBER_TYPE

    def partial(self, kind: Kind | None) -> Partial:
        return MomentsPartial()

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c, m2 = columns["c"], columns["m2"]
        return lambda merged, _: math.sqrt(merged[m2] / (merged[c] - 1)) if merged[c] > 1 else None

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        return ValueColumn(np.sqrt(merged["m2"] / np.maximum(merged["c"] - 1, 1)), merged["c"] > 1)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return StddevAccumulator()


class StddevAccumulator(VarAccumulator):
    """The root of the exact variance."""

    __slots__ = ()

    def result(self) -> float | None:
        variance = super().result()
        return None if variance is None else math.sqrt(variance)
