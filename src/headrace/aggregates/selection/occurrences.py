"""Shared by `hr.first` and `hr.last`: partials that keep a value with its event's time and id."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
import orjson

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction, MergedColumns
from headrace.aggregates.json_values import from_json_value, to_changelog_value, to_json_value
from headrace.aggregates.partial import (
    INT64_MAX,
    INT64_MIN,
    AggregateSlot,
    ColumnBlock,
    Finisher,
    FoldColumn,
    HistoryInput,
    Ints,
    Occurrence,
    Partial,
    Scalar,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
    StoredObject,
    TileRuns,
)
from headrace.aggregates.stored_sketch import present_values
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.declare.features.aggregate_rules import ANY_KINDS, ResultType
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.streams.schema import Kind

_TIME_AND_ID = itemgetter(0, 1)


@dataclass(frozen=True)
class OccurrencePartial(Partial):
    """The first or the last value by event time and id."""

    is_first: bool
    columns = (("v", ColumnBlock.OBJECT),)
    history_input = HistoryInput.EVENT_RANK

    @property
    def name(self) -> str:
        return "first" if self.is_first else "last"

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        """Events are sorted by time and id, so the row number decides."""
        reduction, no_row = (np.minimum, np.iinfo(np.int64).max) if self.is_first else (np.maximum, -1)
        chosen_rows = runs.reduce_per_tile(reduction, np.where(mask, np.arange(len(mask)), no_row)).tolist()
        occurrences = zip(runs.times_us.tolist(), runs.ids.tolist(), data.tolist(), strict=True)
        by_row: list[StoredObject] = list(occurrences)
        return {"v": [by_row[row] if 0 <= row < len(by_row) else None for row in chosen_rows]}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        """Structs are ordered by event: its time and id come before the value."""
        fields = spark.struct(spark.col("event_us").alias("t"), spark.col("id").alias("i"), value.alias("v"))
        occurrence = spark.when(value.isNotNull(), fields)
        return {"v": spark.min(occurrence) if self.is_first else spark.max(occurrence)}

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        reduction, identity = (np.minimum, INT64_MAX) if self.is_first else (np.maximum, INT64_MIN)
        return {"v": FoldColumn(np.where(values.valid, values.data, identity), reduction, identity)}

    def to_json(self, stored: Any, kind: Kind | None) -> dict[str, Any]:
        return {"t": stored[0], "i": stored[1], "v": to_changelog_value(stored[2])}

    def from_json(self, encoded: Any, kind: Kind | None) -> Occurrence:
        value = float(encoded["v"]) if kind is Kind.DOUBLE else encoded["v"]
        return encoded["t"], encoded["i"], value

    def to_bytes(self, stored: Any, kind: Kind | None) -> bytes:
        time_us, event_id, value = stored
        # JSON has no NaN and no infinities: a double is written in Python's notation.
        return orjson.dumps((time_us, event_id, repr(value) if kind is Kind.DOUBLE else value))

    def from_bytes(self, payload: bytes, kind: Kind | None) -> Occurrence:
        time_us, event_id, value = orjson.loads(payload)
        return time_us, event_id, float(value) if kind is Kind.DOUBLE else value


class OccurrenceFunction(AggregateFunction):
    """One of a column's values, selected by its event's time."""

    accepted_kinds = ANY_KINDS
    takes = "every type"
    is_first: ClassVar[bool]

    def result_type(self, kind: Kind | None) -> ResultType:
        return ResultType(kind or Kind.STRING, is_column_value=True)

    def partial(self, kind: Kind | None) -> Partial:
        return OccurrencePartial(self.is_first)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        """Tiles are sorted by start: if they do not overlap, nothing is compared.

        Overlapping tiles are sorted by stream, and their order decides only between events of one time and id.
        """
        v = columns["v"]
        if columns.is_overlapping:
            return self._overlapping_finisher(v)
        if self.is_first:
            return lambda _, objects: _first_value(objects, v)
        return lambda _, objects: _first_value(reversed(objects), v)

    def _overlapping_finisher(self, v: int) -> Finisher:
        if self.is_first:
            return lambda _, objects: _value(min(present_values(objects, v), key=_TIME_AND_ID, default=None))
        return lambda _, objects: _value(max(present_values(objects, v)[::-1], key=_TIME_AND_ID, default=None))

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        return ValueColumn(merged["v"], merged["c"] >= 1)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return OccurrenceAccumulator(aggregate, self.is_first)


def _value(occurrence: Occurrence | None) -> Any:
    return None if occurrence is None else occurrence[2]


def _first_value(objects: Iterable[tuple[Any, ...]], column: int) -> Any:
    for object_row in objects:
        if object_row[column] is not None:
            return object_row[column][2]
    return None


class OccurrenceAccumulator:
    """The value with the earliest or the latest event time; ties go to the smaller or the greater id."""

    __slots__ = ("aggregate", "best", "is_first")

    def __init__(self, aggregate: Aggregate, is_first: bool) -> None:
        self.aggregate, self.is_first = aggregate, is_first
        self.best: tuple[int, Any, Any] | None = None

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        if self.best is None or self._is_better((time_us, event_id), self.best[:2]):
            self.best = time_us, event_id, value

    def _is_better(self, rank: tuple[int, Any], best_rank: tuple[int, Any]) -> bool:
        return rank < best_rank if self.is_first else rank > best_rank

    def merge(self, other: Self) -> None:
        if other.best is not None:
            time_us, event_id, value = other.best
            self.add(value, time_us, event_id)

    def result(self) -> Any:
        return None if self.best is None else self.best[2]

    def encode_state(self) -> Any:
        return None if self.best is None else [*self.best[:2], to_json_value(self.best[2])]

    def restore_state(self, encoded: Any) -> None:
        if encoded is not None:
            self.best = encoded[0], encoded[1], from_json_value(encoded[2], self.aggregate.kind or Kind.STRING)
