"""Shared by `hr.min` and `hr.max`: partials that keep one of the values by its order; NaN is the greatest number."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from headrace.aggregates.accumulator import Accumulator
from headrace.aggregates.aggregate_function import AggregateFunction, MergedColumns
from headrace.aggregates.json_values import from_json_value, to_json_value
from headrace.aggregates.partial import (
    INT64_MAX,
    INT64_MIN,
    AggregateSlot,
    ColumnBlock,
    Finisher,
    FoldColumn,
    HistoryInput,
    Ints,
    Partial,
    Scalar,
    SlotColumns,
    SparkColumn,
    SparkFunctions,
    TileRuns,
)
from headrace.aggregates.stored_sketch import present_values
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.declare.features.aggregate_rules import ORDERED_KINDS, ResultType
from headrace.declare.features.aggregates import Aggregate, AggregateDeclaration
from headrace.declare.features.operands import Operand, build_call
from headrace.declare.features.windows import WindowLengths
from headrace.declare.streams.schema import Kind
from headrace.errors import DeclarationError


def declare_extreme(
    function: str, call: str, column: str | Operand, operands: tuple[object, ...], settings: dict[str, Any]
) -> AggregateDeclaration | Operand:
    """The smallest or greatest value of a column, or of several features: the latter is a call in an expression."""
    if isinstance(column, Operand) or any(isinstance(operand, Operand) for operand in operands):
        return build_call(call, column, *operands)
    if operands:
        raise DeclarationError(
            f"hr.{function}({column!r}, {operands[0]!r}): write a column and windows=…, or features with their windows."
        )
    return _declare_column_extreme(function, column, **settings)


def _declare_column_extreme(
    function: str, column: str, *, windows: WindowLengths = (), where: str | None = None, hop: str | None = None
) -> AggregateDeclaration:
    return AggregateDeclaration(function, column, where, windows, hop)


@dataclass(frozen=True)
class ExtremePartial(Partial):
    """The smallest or the greatest value."""

    is_min: bool
    prefix: ClassVar[str]

    @property
    def name(self) -> str:
        return f"{self.prefix}_{'min' if self.is_min else 'max'}"

    @property
    def _reduction(self) -> np.ufunc:
        return np.minimum if self.is_min else np.maximum

    @property
    def _identity(self) -> float:
        """The value without events."""
        return INT64_MAX if self.is_min else INT64_MIN

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        return {"v": runs.reduce_per_tile(self._reduction, np.where(mask, data, self._identity))}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        return {"v": spark.min(value) if self.is_min else spark.max(value)}

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        data = np.where(values.valid, values.data, self._identity)
        return {"v": FoldColumn(data, self._reduction, self._identity)}


@dataclass(frozen=True)
class IntExtremePartial(ExtremePartial):
    """The extreme of integers, and of times in µs."""

    prefix = "int"

    @property
    def columns(self) -> tuple[tuple[str, ColumnBlock], ...]:  # type: ignore[override]
        return (("v", ColumnBlock.INT_MIN if self.is_min else ColumnBlock.INT_MAX),)


@dataclass(frozen=True)
class FloatExtremePartial(ExtremePartial):
    """The extreme of doubles: a minimum ignores NaN, a maximum becomes NaN."""

    prefix = "float"

    @property
    def columns(self) -> tuple[tuple[str, ColumnBlock], ...]:  # type: ignore[override]
        return (("v", ColumnBlock.FLOAT_MIN if self.is_min else ColumnBlock.FLOAT_MAX),)

    @property
    def _reduction(self) -> np.ufunc:
        return np.fmin if self.is_min else np.maximum

    @property
    def _identity(self) -> float:
        return math.nan if self.is_min else -math.inf


@dataclass(frozen=True)
class TextExtremePartial(ExtremePartial):
    """The extreme of texts, by their characters."""

    prefix = "text"
    columns = (("v", ColumnBlock.OBJECT),)
    history_input = HistoryInput.TEXT_RANK

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        pick = min if self.is_min else max
        return {"v": [pick(texts, default=None) for texts in runs.values_per_tile(data, mask)]}

    def to_json(self, stored: Any, kind: Kind | None) -> str:
        return str(stored)

    def from_json(self, encoded: Any, kind: Kind | None) -> str:
        return str(encoded)

    def to_bytes(self, stored: Any, kind: Kind | None) -> bytes:
        return str(stored).encode()

    def from_bytes(self, payload: bytes, kind: Kind | None) -> str:
        return payload.decode()


class Extreme(AggregateFunction):
    """One of a column's values, selected by its order."""

    accepted_kinds = ORDERED_KINDS
    takes = "numbers, strings, timestamps"
    is_min: ClassVar[bool]

    def result_type(self, kind: Kind | None) -> ResultType:
        return ResultType(kind or Kind.STRING, is_column_value=True)

    def partial(self, kind: Kind | None) -> Partial:
        partials = {Kind.DOUBLE: FloatExtremePartial, Kind.STRING: TextExtremePartial}
        return partials.get(kind, IntExtremePartial)(self.is_min) if kind else IntExtremePartial(self.is_min)

    def make_finisher(self, aggregate: Aggregate, columns: SlotColumns) -> Finisher:
        c, v = columns["c"], columns["v"]
        if aggregate.kind is not Kind.STRING:
            return lambda merged, _: merged[v] if merged[c] else None
        pick = min if self.is_min else max
        return lambda _, objects: pick(present_values(objects, v), default=None)

    def finish_history(self, aggregate: Aggregate, merged: MergedColumns) -> ValueColumn:
        return ValueColumn(merged["v"], merged["c"] >= 1)

    def create_accumulator(self, aggregate: Aggregate) -> Accumulator:
        return ExtremeAccumulator(aggregate, self.is_min)


class ExtremeAccumulator:
    """The best value so far."""

    __slots__ = ("aggregate", "best", "is_min")

    def __init__(self, aggregate: Aggregate, is_min: bool) -> None:
        self.aggregate, self.is_min = aggregate, is_min
        self.best: Any = None

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None:
        if self.best is None or self._is_better(_sort_rank(value), _sort_rank(self.best)):
            self.best = value

    def _is_better(self, rank: Any, best_rank: Any) -> bool:
        return bool(rank < best_rank if self.is_min else rank > best_rank)

    def merge(self, other: Self) -> None:
        if other.best is not None:
            self.add(other.best, 0, 0)

    def result(self) -> Any:
        return self.best

    def encode_state(self) -> Any:
        return to_json_value(self.best)

    def restore_state(self, encoded: Any) -> None:
        self.best = from_json_value(encoded, self.aggregate.kind or Kind.STRING)


def _sort_rank(value: Any) -> Any:
    """The sort key of a value; the negative zero is smaller than the positive."""
    return (math.isnan(value), value, math.copysign(1, value)) if isinstance(value, float) else value
