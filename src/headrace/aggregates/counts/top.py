"""`hr.top`: the most frequent values, by frequent items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headrace.aggregates.aggregate_function import AggregateFunction
from headrace.aggregates.partial import (
    AggregateSlot,
    Finisher,
    HistoryInput,
    Ints,
    Partial,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
)
from headrace.aggregates.sketches.frequent_items import (
    MAX_TEXT_LENGTH,
    build_frequent_sketch,
    map_capacity,
    most_frequent,
)
from headrace.aggregates.sketches.sketch_sizes import DEFAULT_ERROR, frequent_items_lg_size
from headrace.aggregates.stored_sketch import SketchPartial, present_values
from headrace.aggregates.value_columns import Data, ValueColumn
from headrace.aggregates.window_events import EventChunk, WindowEvents
from headrace.declare.features.aggregate_rules import CATEGORY_KINDS, ResultType, Shape, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind
from headrace.errors import DeclarationError

MAX_TOP_K = 100


def top(
    column: str,
    k: int,
    *,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration:
    """The k most frequent values, most frequent first, by frequent items whose counts have the stated error."""
    return AggregateDeclaration(Top.name, column, where, windows, hop, error, k=k)


@dataclass(frozen=True)
class FrequentItemsPartial(SketchPartial):
    """A map of frequent items and their counts."""

    name = "top"

    def history_input_of(self, kind: Kind | None) -> HistoryInput:
        return HistoryInput.TEXT_RANK if kind is Kind.STRING else HistoryInput.VALUE

    def build_sketch(self, values: Sequence[Any], size: int) -> bytes:
        return build_frequent_sketch(values, size)

    def spark_sketch(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> SparkColumn:
        is_text = slot.kind is Kind.STRING
        item = spark.left(value, spark.lit(MAX_TEXT_LENGTH)) if is_text else value.cast("bigint")
        # Spark sizes the map to the next power of two above 4/3 of the requested number of items.
        accumulated = spark.call_function("approx_top_k_accumulate", item, spark.lit(1 << (slot.size - 1)))
        return accumulated.getField("sketch")

    def max_bytes(self, slot: AggregateSlot) -> int:
        return 40 + map_capacity(slot.size) * (8 + (4 + 4 * MAX_TEXT_LENGTH if slot.kind is Kind.STRING else 8))


@register_aggregate
class Top(AggregateFunction):
    """A list of the most frequent values."""

    name = "top"
    accepted_kinds = CATEGORY_KINDS
    usage = "hr.top(c, 3, error=0.02)"
    takes = "strings, whole numbers, booleans"
    gives = "the most frequent values, most frequent first: a list"
    why_not_windowed = (
        'it is a list. Write hr.first, hr.last or hr.count(where="… = …") for one value, or a view for the list.'
    )

    def result_type(self, kind: Kind | None) -> ResultType:
        return ResultType(kind or Kind.STRING, Shape.LIST)

    def require_options(self, declaration: AggregateDeclaration, where: str) -> None:
        k = declaration.k
        if type(k) is not int or not 1 <= k <= MAX_TOP_K:
            raise DeclarationError(f"{where}: top {k!r}. Write how many values to give, from 1 to {MAX_TOP_K}.")

    def partial(self, kind: Kind | None) -> Partial:
        return FrequentItemsPartial()

    def size(self, aggregate: Aggregate) -> int:
        return frequent_items_lg_size(aggregate.error or 0.0)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        v, k, kind = columns["v"], aggregate.k or 0, aggregate.kind or Kind.STRING
        return lambda _, objects: most_frequent(present_values(objects, v), k, kind) or None

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> ValueColumn:
        """Up to k columns for each pair."""
        shape = (window_events.pair_count, aggregate.k or 0)
        top_values, is_valid = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        for chunk in window_events.split_into_chunks():
            value_counts = count_values(chunk)
            ranks = np.arange(len(value_counts.pairs)) - np.repeat(value_counts.first_indices, value_counts.sizes)
            is_top = ranks < shape[1]
            top_values[value_counts.pairs[is_top], ranks[is_top]] = value_counts.values[is_top]
            is_valid[value_counts.pairs[is_top], ranks[is_top]] = True
        return ValueColumn(top_values, is_valid)


class ValueCounts(NamedTuple):
    """The distinct values of some pairs, pair by pair, most frequent first; and the offset of each pair."""

    pairs: Ints
    values: Data
    counts: Ints
    first_indices: Ints

    @property
    def sizes(self) -> Ints:
        return np.diff(self.first_indices, append=len(self.pairs))


def count_values(chunk: EventChunk) -> ValueCounts:
    """Exact counts; online, counts from tiles with very many distinct values may be too small."""
    distinct_values, codes = np.unique(chunk.data, return_inverse=True)
    keys, counts = np.unique(chunk.pairs * len(distinct_values) + codes, return_counts=True)
    pairs, codes = np.divmod(keys, max(1, len(distinct_values)))
    order = np.lexsort((codes, -counts, pairs))
    pairs = pairs[order]
    return ValueCounts(pairs, distinct_values[codes[order]], counts[order], np.flatnonzero(np.diff(pairs, prepend=-1)))
