"""`hr.count(by=…)`: the frequency of each value of a column."""

from typing import Any

import numpy as np

from headrace.aggregates.aggregate_function import AggregateFunction
from headrace.aggregates.counts.top import FrequentItemsPartial, count_values
from headrace.aggregates.partial import Finisher, Partial, SlotColumns
from headrace.aggregates.sketches.frequent_items import counts_by_value
from headrace.aggregates.sketches.sketch_sizes import frequent_items_lg_size
from headrace.aggregates.stored_sketch import present_values
from headrace.aggregates.value_columns import MapColumn
from headrace.aggregates.window_events import WindowEvents
from headrace.declare.features.aggregate_rules import CATEGORY_KINDS, ResultType, Shape, register_aggregate
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.streams.schema import Kind


@register_aggregate
class CountBy(AggregateFunction):
    """A map of the frequency of each value; declared by `hr.count(by=…)`."""

    name = "count_by"
    accepted_kinds = CATEGORY_KINDS
    usage = "hr.count(by=c, error=0.02)"
    takes = "strings, whole numbers, booleans"
    gives = "how many events each value has, most frequent first: a map"
    of_nothing = "an empty map"
    why_not_windowed = 'it is a map. Write one hr.count(where="{column} = …") a value, or a view for the map.'

    def result_type(self, kind: Kind | None) -> ResultType:
        return ResultType(kind or Kind.STRING, Shape.MAP, is_nullable=False)

    def default_value(self) -> dict[Any, int]:
        return {}

    def describe(self) -> str:
        return "count by"

    def partial(self, kind: Kind | None) -> Partial:
        return FrequentItemsPartial()

    def size(self, aggregate: Aggregate) -> int:
        return frequent_items_lg_size(aggregate.error or 0.0)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        v, kind = columns["v"], aggregate.kind or Kind.STRING
        return lambda _, objects: counts_by_value(present_values(objects, v), kind)

    def compute_history(self, aggregate: Aggregate, window_events: WindowEvents) -> MapColumn:
        """A map for each pair, with as many entries as it has distinct values."""
        begins, sizes = np.zeros((2, window_events.pair_count), np.int64)
        keys, counts, entry_count = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
        for chunk in window_events.split_into_chunks():
            value_counts = count_values(chunk)
            chunk_pairs = value_counts.pairs[value_counts.first_indices]
            begins[chunk_pairs], sizes[chunk_pairs] = entry_count + value_counts.first_indices, value_counts.sizes
            keys.append(value_counts.values)
            counts.append(value_counts.counts)
            entry_count += len(value_counts.pairs)
        return MapColumn(begins, sizes, np.concatenate(keys), np.concatenate(counts))
