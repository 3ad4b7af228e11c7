"""Partial aggregates: the mergeable columns that a tile stores, and how each engine computes them.

    events ──fold, in numpy or in Spark──▶ partial of a tile ──merged over the tiles of a window──▶ finished value

Functions share partials of one kind: `mean` reads the columns of `sum`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.aggregates.stateful_merge import ColumnPosition, StatefulMerge
from headrace.aggregates.value_columns import Data, Mask, ValueColumn
from headrace.aggregates.window_events import WindowEvents
from headrace.declare.expressions import Expression
from headrace.declare.streams.schema import Kind

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Ints = NDArray[np.int64]
Scalar = bool | int | float | str
Occurrence = tuple[int, Scalar, Scalar]  # event time in µs, id, value
StoredObject = str | bytes | Occurrence
# A Spark column, and `pyspark.sql.functions`, which is passed in: a server folds in numpy, and never imports Spark.
SparkColumn = Any
SparkFunctions = Any
SparkColumns = Mapping[str, SparkColumn]


class ColumnBlock(Enum):
    """A column's block in a row: its type, its merge, and its value without events."""

    INT_ADD = ("int", "add", 0)
    INT_MIN = ("int", "min", INT64_MAX)
    INT_MAX = ("int", "max", INT64_MIN)
    FLOAT_ADD = ("float", "add", 0.0)
    FLOAT_MIN = ("float", "min", math.nan)
    FLOAT_MAX = ("float", "max", -math.inf)
    FLOAT_STATEFUL = ("float", "keep", 0.0)
    OBJECT = ("object", "keep", None)

    def __init__(self, store: str, merge: str, identity: float | None) -> None:
        self.store, self.merge, self.identity = store, merge, identity


class HistoryInput(Enum):
    """The number that represents a value in training sets, where every column is numeric."""

    VALUE = "value"
    EVENT_RANK = "event rank"  # the event's rank by time, id and stream
    TEXT_RANK = "text rank"  # the text's rank among all texts
    COUPON = "coupon"  # the value's HyperLogLog coupon


class FoldColumn(NamedTuple):
    """A column of numbers, one per event, with its merge, and its value without events."""

    data: Data
    reduction: np.ufunc
    identity: float


class TileRuns(Protocol):
    """Events sorted by tile, each tile one run: the input of folds in numpy."""

    times_us: Ints
    starts_us: Ints
    ids: Data

    @property
    def hop_us(self) -> int: ...

    def reduce_per_tile(self, reduction: np.ufunc, data: Data) -> Data:
        """Reduce each run to one value."""

    def sum_per_tile(self, data: Data, mask: Mask) -> Data: ...

    def count_per_tile(self, mask: Mask) -> Data: ...

    def repeat_per_event(self, column: Data) -> Data:
        """Repeat a value per run for each of its events."""

    def values_per_tile(self, data: Data, mask: Mask) -> Iterator[list[Any]]:
        """The values of each run that are counted."""


class Partial(ABC):
    """A kind of partial aggregate. Its first column `c` is the number of its values: zero means null.

    Subclasses are frozen dataclasses, so that two partials of one kind are equal, also in another process.
    """

    columns: ClassVar[tuple[tuple[str, ColumnBlock], ...]] = ()  # after `c`
    history_input: ClassVar[HistoryInput] = HistoryInput.VALUE
    needs_window_events: ClassVar[bool] = False  # in training sets its functions read every event of a window
    is_sketch: ClassVar[bool] = False
    is_rounded: ClassVar[bool] = False  # for doubles the result depends on the merge order

    @property
    @abstractmethod
    def name(self) -> str:
        """Part of a tile's version: a tile with another name is another tile."""

    @property
    def all_columns(self) -> tuple[tuple[str, ColumnBlock], ...]:
        """The suffix and block of each of its columns."""
        return (("c", ColumnBlock.INT_ADD), *self.columns)

    @property
    def has_object(self) -> bool:
        """Whether it has a column of variable width."""
        return any(block is ColumnBlock.OBJECT for _, block in self.columns)

    @abstractmethod
    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: "AggregateSlot") -> dict[str, Any]:
        """Its columns after `c`, one value per tile, in numpy."""

    @abstractmethod
    def spark_columns(self, slot: "AggregateSlot", value: SparkColumn, spark: SparkFunctions) -> SparkColumns:
        """The same columns as Spark aggregates of a column that is null where an event is not counted.

        The aggregates may also read `event_us`, `id` and `end`, the tile's end.
        """

    def stateful_merge(self, slot: "AggregateSlot", columns: Mapping[str, ColumnPosition]) -> StatefulMerge:
        """The merge of its FLOAT_STATEFUL columns."""
        raise NotImplementedError(f"{self.name} has no stateful columns")

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        """For training sets: columns with an entry per event, whose reductions over windows its functions finish."""
        raise NotImplementedError(f"{self.name} needs the single events of a window")

    def refine_history(self, merged: dict[str, Data], window_events: Callable[[], WindowEvents]) -> None:  # noqa: B027
        """Correct the reductions of windows whose precision is too low."""

    def history_input_of(self, kind: Kind | None) -> HistoryInput:
        """The number that represents a value of a kind in training sets."""
        return self.history_input

    def max_bytes(self, slot: "AggregateSlot") -> int:
        """The maximum size of its sketch, at least approximately; 0 without a sketch."""
        return 0

    def to_json(self, stored: Any, kind: Kind | None) -> Any:
        """The changelog's encoding of a column of variable width."""
        raise NotImplementedError(f"{self.name} has only columns of fixed width")

    def from_json(self, encoded: Any, kind: Kind | None) -> StoredObject:
        """Decode the changelog's encoding."""
        raise NotImplementedError(f"{self.name} has only columns of fixed width")

    def to_bytes(self, stored: Any, kind: Kind | None) -> bytes:
        """The online stores' encoding of a column of variable width."""
        raise NotImplementedError(f"{self.name} has only columns of fixed width")

    def from_bytes(self, payload: bytes, kind: Kind | None) -> StoredObject:
        """Decode the online stores' encoding."""
        raise NotImplementedError(f"{self.name} has only columns of fixed width")


@dataclass(frozen=True)
class AggregateSlot:
    """One partial aggregate of a tile: the function, the column, and the condition."""

    partial: Partial
    column: str | None
    kind: Kind | None
    where: Expression | None
    size: int = 0  # lg k of a HyperLogLog, k of a KLL, lg of a map of frequent items, half-life in µs

    @property
    def identity(self) -> list[str | int]:
        """The identity of this slot among others, as plain values."""
        return [
            self.partial.name,
            self.column or "",
            self.kind.value if self.kind else "",
            str(self.where or ""),
            self.size,
        ]


MergedValues = Sequence[Any]  # a window's columns of fixed width, each merged to one value
ObjectRows = Sequence[tuple[Any, ...]]  # the columns of variable width of each tile of a window
Finisher = Callable[[MergedValues, ObjectRows], Any]


@dataclass(frozen=True)
class SlotColumns:
    """The positions of a slot's columns among the merged ones, by suffix; tiles of several streams may overlap."""

    positions: Mapping[str, int]
    is_overlapping: bool = False

    def __getitem__(self, suffix: str) -> int:
        return self.positions[suffix]
