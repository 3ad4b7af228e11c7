"""What a tile keeps of an aggregate: named columns that merge, and how each engine fills them.

    events ──fold, in numpy or in Spark──▶ partial of a tile ──merged over the tiles of a window──▶ finished value

Functions of one kind of partial share it: `mean` reads what `sum` keeps.
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
# A Spark column, and `pyspark.sql.functions`, which is handed in: a server folds in numpy, and never imports Spark.
SparkColumn = Any
SparkFunctions = Any
SparkColumns = Mapping[str, SparkColumn]


class ColumnBlock(Enum):
    """Where in a row a column stands: how it is stored, how it merges, and the value of no events."""

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
    """What stands for a value when a training set is made, where every column is one of numbers."""

    VALUE = "value"
    EVENT_RANK = "event rank"  # the event's place in the order of time, id and stream
    TEXT_RANK = "text rank"  # the text's place among all texts
    COUPON = "coupon"  # what a HyperLogLog keeps of the value


class FoldColumn(NamedTuple):
    """A column of numbers, one an event, how it merges, and the value of no events."""

    data: Data
    reduction: np.ufunc
    identity: float


class TileRuns(Protocol):
    """Events in the order of their tiles, each tile one run of them: what partials are folded from in numpy."""

    times_us: Ints
    starts_us: Ints
    ids: Data

    @property
    def hop_us(self) -> int: ...

    def reduce_per_tile(self, reduction: np.ufunc, data: Data) -> Data:
        """A reduction of each run."""

    def sum_per_tile(self, data: Data, mask: Mask) -> Data: ...

    def count_per_tile(self, mask: Mask) -> Data: ...

    def repeat_per_event(self, column: Data) -> Data:
        """A value a run as a value an event."""

    def values_per_tile(self, data: Data, mask: Mask) -> Iterator[list[Any]]:
        """The values of each run that count."""


class Partial(ABC):
    """A kind of partial aggregate. Every partial has a column `c` first, the number of its values: none means null.

    Subclasses are frozen dataclasses, so that two partials of one kind are equal, also in another process.
    """

    columns: ClassVar[tuple[tuple[str, ColumnBlock], ...]] = ()  # after `c`
    history_input: ClassVar[HistoryInput] = HistoryInput.VALUE
    needs_window_events: ClassVar[bool] = False  # in training sets its functions look at every event of a window
    is_sketch: ClassVar[bool] = False
    is_rounded: ClassVar[bool] = False  # of doubles it depends on the order in which they are merged

    @property
    @abstractmethod
    def name(self) -> str:
        """Part of a tile's version: what has another name is another tile."""

    @property
    def all_columns(self) -> tuple[tuple[str, ColumnBlock], ...]:
        """Suffix and block of each of its columns."""
        return (("c", ColumnBlock.INT_ADD), *self.columns)

    @property
    def has_object(self) -> bool:
        """Whether it keeps something without a fixed width."""
        return any(block is ColumnBlock.OBJECT for _, block in self.columns)

    @abstractmethod
    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: "AggregateSlot") -> dict[str, Any]:
        """Its columns after `c`, a value a tile, in numpy."""

    @abstractmethod
    def spark_columns(self, slot: "AggregateSlot", value: SparkColumn, spark: SparkFunctions) -> SparkColumns:
        """The same as Spark aggregates of a column that is null where an event does not count.

        Beside it they may read `event_us`, `id` and `end`, the tile's end.
        """

    def stateful_merge(self, slot: "AggregateSlot", columns: Mapping[str, ColumnPosition]) -> StatefulMerge:
        """How its FLOAT_STATEFUL columns merge."""
        raise NotImplementedError(f"{self.name} has no columns that merge with others in sight")

    def fold_history(self, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
        """For training sets: columns of an entry an event, whose reductions over windows its functions finish."""
        raise NotImplementedError(f"{self.name} needs the very events of a window")

    def refine_history(self, merged: dict[str, Data], window_events: Callable[[], WindowEvents]) -> None:  # noqa: B027
        """Put right what the reductions of some windows say too coarsely."""

    def history_input_of(self, kind: Kind | None) -> HistoryInput:
        """What stands for a value of a kind in training sets."""
        return self.history_input

    def max_bytes(self, slot: "AggregateSlot") -> int:
        """How large its sketch can become, at most or nearly so; 0 where it has none."""
        return 0

    def to_json(self, stored: Any, kind: Kind | None) -> Any:
        """What it stores without a fixed width, as the changelog has it."""
        raise NotImplementedError(f"{self.name} stores columns of a fixed width alone")

    def from_json(self, encoded: Any, kind: Kind | None) -> StoredObject:
        """The way back."""
        raise NotImplementedError(f"{self.name} stores columns of a fixed width alone")

    def to_bytes(self, stored: Any, kind: Kind | None) -> bytes:
        """The same as online stores have it."""
        raise NotImplementedError(f"{self.name} stores columns of a fixed width alone")

    def from_bytes(self, payload: bytes, kind: Kind | None) -> StoredObject:
        """The way back."""
        raise NotImplementedError(f"{self.name} stores columns of a fixed width alone")


@dataclass(frozen=True)
class AggregateSlot:
    """One partial aggregate of a tile: what is folded, of which column, for which events."""

    partial: Partial
    column: str | None
    kind: Kind | None
    where: Expression | None
    size: int = 0  # lg k of a HyperLogLog, k of a KLL, lg of a map of frequent items, half-life in µs

    @property
    def identity(self) -> list[str | int]:
        """What makes this slot another one than that, in plain values."""
        return [
            self.partial.name,
            self.column or "",
            self.kind.value if self.kind else "",
            str(self.where or ""),
            self.size,
        ]


MergedValues = Sequence[Any]  # a window's columns of a fixed width, each merged to one value
ObjectRows = Sequence[tuple[Any, ...]]  # of each tile of a window, what has no fixed width
Finisher = Callable[[MergedValues, ObjectRows], Any]


@dataclass(frozen=True)
class SlotColumns:
    """Where a slot's columns stand among those merged, by suffix; tiles of several streams may overlap."""

    positions: Mapping[str, int]
    is_overlapping: bool = False

    def __getitem__(self, suffix: str) -> int:
        return self.positions[suffix]
