"""`hr.quantile`: a quantile of a column, by KLL."""

import math
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from datasketches import kll_doubles_sketch

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction
from headrace.aggregates.partial import (
    AggregateSlot,
    Finisher,
    Partial,
    Scalar,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
)
from headrace.aggregates.sketches.quantiles import build_quantile_sketch, estimate_quantile
from headrace.aggregates.sketches.sketch_sizes import DEFAULT_ERROR, kll_k
from headrace.aggregates.stored_sketch import SketchPartial, present_values
from headrace.aggregates.value_columns import ValueColumn
from headrace.aggregates.window_events import WindowEvents
from headrace.declare.features.aggregate_rules import NUMBER_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind
from headrace.errors import DeclarationError


def quantile(
    column: str,
    share: float,
    *,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration:
    """The smallest value that at least this share of the values do not exceed, by KLL with the stated rank error."""
    return AggregateDeclaration(Quantile.name, column, where, windows, hop, error, share)


@dataclass(frozen=True)
class QuantilePartial(SketchPartial):
    """A KLL sketch of doubles."""

    name = "quantile"

    def build_sketch(self, values: Sequence[Any], size: int) -> bytes:
        return build_quantile_sketch(values, size)

    def spark_sketch(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> SparkColumn:
        return spark.kll_sketch_agg_double(value.cast("double"), slot.size)

    def max_bytes(self, slot: AggregateSlot) -> int:
        return 128 + 8 * 3 * slot.size  # levels of k, 2k/3, 4k/9 …, for any number of values


@register_aggregate
class Quantile(AggregateFunction):
    """The smallest value that at least a share of the values do not exceed."""

    name = "quantile"
    usage = "hr.quantile(c, 0.5, error=0.02)"
    gives = "float: the smallest value that at least this share do not exceed"

    def result_type(self, kind: Kind | None) -> ResultType:
        return NUMBER_TYPE

    def require_options(self, declaration: AggregateDeclaration, where: str) -> None:
        share = declaration.share
        if type(share) not in {int, float} or not 0 <= share <= 1:  # type: ignore[operator]  # a number by now
            raise DeclarationError(
                f"{where}: quantile {share!r}. Write a share from 0 to 1, such as 0.5 for the median."
            )

    def partial(self, kind: Kind | None) -> Partial:
        return QuantilePartial()

    def size(self, aggregate: Aggregate) -> int:
        return kll_k(aggregate.error or 0.0)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        v, share = columns["v"], aggregate.share or 0.0
        return lambda _, objects: estimate_quantile(present_values(objects, v), share)

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
        """By definition; online, the sketches of busy tiles may be off by the stated error."""
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

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return QuantileAccumulator(aggregate.share or 0.0, self.size(aggregate))


class QuantileAccumulator:
    """A KLL sketch that is updated value by value; NaN is ignored."""

    __slots__ = ("share", "sketch")

    def __init__(self, share: float, k: int) -> None:
        self.share, self.sketch = share, kll_doubles_sketch(k)

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        self.sketch.update(float(value) + 0.0)  # normalise the two zeros

    def merge(self, other: Self) -> None:
        self.sketch.merge(other.sketch)

    def result(self) -> float | None:
        return estimate_quantile([bytes(self.sketch.serialize())], self.share)

    def encode_state(self) -> str:
        return b2a_base64(self.sketch.serialize(), newline=False).decode()

    def restore_state(self, encoded: str) -> None:
        self.sketch = kll_doubles_sketch.deserialize(a2b_base64(encoded))
