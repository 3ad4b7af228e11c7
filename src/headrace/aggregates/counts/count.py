"""`hr.count`: the number of events, or the frequency of each value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, overload

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction, MergedColumns
from headrace.aggregates.counts.count_by import CountBy
from headrace.aggregates.partial import (
    AggregateSlot,
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
from headrace.aggregates.sketches.sketch_sizes import DEFAULT_ERROR
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.declare.features.aggregate_rules import COUNT_TYPE, ResultType, register_aggregate
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind
from headrace.errors import DeclarationError


@overload
def count(*, windows: WindowLengths = (), where: str | None = None, hop: str | None = None) -> AggregateDeclaration: ...
@overload
def count(
    *,
    by: str,
    windows: WindowLengths = (),
    where: str | None = None,
    hop: str | None = None,
    error: float = DEFAULT_ERROR,
) -> AggregateDeclaration: ...
def count(
    *,
    windows: WindowLengths = (),
    by: str | None = None,
    where: str | None = None,
    hop: str | None = None,
    error: float | None = None,
) -> AggregateDeclaration:
    """The number of events; with `by`, a map of the frequency of each value of that column, by frequent items."""
    if by is not None:
        return AggregateDeclaration(CountBy.name, by, where, windows, hop, DEFAULT_ERROR if error is None else error)
    if error is not None:
        raise DeclarationError(f'hr.count(error={error!r}): a count is exact. Leave error= out, or add by="column".')
    return AggregateDeclaration(Count.name, None, where, windows, hop)


@dataclass(frozen=True)
class CountPartial(Partial):
    """The number of events: the column that every partial has."""

    name = "count"

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        return {}

    def spark_columns(
        self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions
    ) -> Mapping[str, SparkColumn]:
        return {}

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        return {}


@register_aggregate
class Count(AggregateFunction):
    """The number of events."""

    name = "count"
    accepted_kinds = frozenset()
    usage = "hr.count()"
    takes = "–"
    gives = "how many events: int"
    of_nothing = "0"
    is_additive = True

    def result_type(self, kind: Kind | None) -> ResultType:
        return COUNT_TYPE

    def default_value(self) -> int:
        return 0

    def partial(self, kind: Kind | None) -> Partial:
        return CountPartial()

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c = columns["c"]
        return lambda merged, _: merged[c]

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        return ValueColumn(merged["c"], np.ones(len(merged["c"]), np.bool_))

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return CountAccumulator()


class CountAccumulator:
    """A counter."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        self.count += 1

    def merge(self, other: Self) -> None:
        self.count += other.count

    def result(self) -> int:
        return self.count

    def encode_state(self) -> int:
        return self.count

    def restore_state(self, encoded: int) -> None:
        self.count = encoded
