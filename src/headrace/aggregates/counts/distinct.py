"""`hr.distinct`: the number of distinct values, by HyperLogLog."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from datasketches import hll_sketch, hll_union, tgt_hll_type

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction
from headrace.aggregates.partial import (
    AggregateSlot,
    Finisher,
    HistoryInput,
    Partial,
    Scalar,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
)
from headrace.aggregates.sketches.distinct_count import (
    build_distinct_sketch,
    estimate_distinct,
    estimate_from_coupons,
    max_coupons,
)
from headrace.aggregates.sketches.sketch_sizes import DEFAULT_ERROR, hyperloglog_lg_k
from headrace.aggregates.stored_sketch import SketchPartial, present_values
from headrace.aggregates.value_columns import Mask, ValueColumn
from headrace.aggregates.window_events import EventChunk, WindowEvents
from headrace.declare.features.aggregate_rules import COUNT_TYPE, COUNTABLE_KINDS, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind


def distinct(
    column: str,
    *,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration:
    """The number of distinct values, by HyperLogLog with the stated relative standard error."""
    return AggregateDeclaration(Distinct.name, column, where, windows, hop, error)


@dataclass(frozen=True)
class DistinctPartial(SketchPartial):
    """A HyperLogLog sketch."""

    name = "distinct"
    history_input = HistoryInput.COUPON

    def build_sketch(self, values: Sequence[Any], size: int) -> bytes:
        return build_distinct_sketch(values, size)

    def spark_sketch(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> SparkColumn:
        # A sketch ignores the empty string; with a prefix it counts like any other.
        hashed = spark.concat(spark.lit("="), value) if slot.kind is Kind.STRING else value.cast("bigint")
        return spark.hll_sketch_agg(hashed, slot.size)

    def max_bytes(self, slot: AggregateSlot) -> int:
        return 40 + (1 << slot.size)


@register_aggregate
class Distinct(AggregateFunction):
    """The number of distinct values."""

    name = "distinct"
    accepted_kinds = COUNTABLE_KINDS
    usage = "hr.distinct(c, error=0.02)"
    takes = "strings, whole numbers, booleans, timestamps"
    gives = "how many different values, estimated: int"
    of_nothing = "0"

    def result_type(self, kind: Kind | None) -> ResultType:
        return COUNT_TYPE

    def default_value(self) -> int:
        return 0

    def partial(self, kind: Kind | None) -> Partial:
        return DistinctPartial()

    def size(self, aggregate: Aggregate) -> int:
        return hyperloglog_lg_k(aggregate.error or 0.0)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        v = columns["v"]
        return lambda _, objects: estimate_distinct(present_values(objects, v))

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
        """Counts coupons, as online; a window with a tile that exceeds them is estimated by registers."""
        lg_k = self.size(aggregate)
        estimates = np.zeros(window_events.pair_count, np.int64)
        for chunk in window_events.split_into_chunks():
            distinct_values = np.unique(chunk.pairs << 32 | chunk.data)
            counts = np.bincount(distinct_values >> 32, minlength=window_events.pair_count)
            estimates += counts
            for pair in _pairs_with_full_tile(chunk, counts > max_coupons(lg_k), lg_k):
                first, end = np.searchsorted(distinct_values, [pair << 32, (pair + 1) << 32])
                coupons = (distinct_values[first:end] & 0xFFFFFFFF).astype(np.uint32)
                estimates[pair] = estimate_from_coupons(coupons, lg_k)
        return ValueColumn(estimates, np.ones(window_events.pair_count, np.bool_))

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return DistinctAccumulator(self.size(aggregate))


def _pairs_with_full_tile(chunk: EventChunk, suspects: Mask, lg_k: int) -> list[int]:
    if not suspects.any():
        return []
    is_suspect = suspects[chunk.pairs]
    distinct_rows = np.unique(
        np.stack([chunk.pairs[is_suspect], chunk.tiles[is_suspect], chunk.data[is_suspect]]), axis=1
    )
    tiles, counts = np.unique(distinct_rows[:2], axis=1, return_counts=True)
    return np.unique(tiles[0][counts > max_coupons(lg_k)]).tolist()  # type: ignore[no-any-return]  # ints


class DistinctAccumulator:
    """A HyperLogLog sketch that is updated value by value."""

    __slots__ = ("lg_k", "sketch")

    def __init__(self, lg_k: int) -> None:
        self.lg_k = lg_k
        self.sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        self.sketch.update("=" + value if isinstance(value, str) else int(value))

    def merge(self, other: Self) -> None:
        union = hll_union(self.lg_k)
        union.update(self.sketch)
        union.update(other.sketch)
        self.sketch = union.get_result(tgt_hll_type.HLL_8)

    def result(self) -> int:
        return 0 if self.sketch.is_empty() else estimate_distinct([bytes(self.sketch.serialize_compact())])

    def encode_state(self) -> str:
        return b2a_base64(self.sketch.serialize_compact(), newline=False).decode()

    def restore_state(self, encoded: str) -> None:
        self.sketch = hll_sketch.deserialize(a2b_base64(encoded))
