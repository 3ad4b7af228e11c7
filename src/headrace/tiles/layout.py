"""What a tile holds: the partial aggregates of one entity over one hop, as columns of a fixed-width row.

    row  = start n time arrival │ int add │ int min │ int max │ float add │ float min │ float max │ float keep
           └──────── head ─────┘ └──────────── int64 ────────┘ └──────────────── float64 ───────────────────┘
    objects = what has no fixed width: text, first and last values, sketches

Partials of one kind stand side by side, so that a window is one numpy reduction a kind, not one a feature.
"""

import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from operator import itemgetter
from typing import Any

from headrace.declare.expressions import Expression
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.features.sketch_sizes import frequent_items_lg_size, hyperloglog_lg_k, kll_k
from headrace.declare.features.view import View
from headrace.declare.features.windows import FOREVER_US
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.tiles.sketches.frequent_items import MAX_TEXT_LENGTH, map_capacity

START, EVENT_COUNT, TIME, ARRIVAL = range(4)
HEAD_FIELDS = ("start", "n", "time", "arrival")
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Partial(Enum):
    """The kinds of partial aggregate; features that share one share its columns."""

    COUNT = "count"
    INT_SUM = "int_sum"
    FLOAT_SUM = "float_sum"
    MOMENTS = "moments"
    DECAYED = "decayed"
    INT_MIN = "int_min"
    INT_MAX = "int_max"
    FLOAT_MIN = "float_min"
    FLOAT_MAX = "float_max"
    TEXT_MIN = "text_min"
    TEXT_MAX = "text_max"
    FIRST = "first"
    LAST = "last"
    DISTINCT = "distinct"
    QUANTILE = "quantile"
    TOP = "top"


@dataclass(frozen=True)
class TilePart:
    """Which events a tile was folded from: those of one of a view's streams, on one side of its cut if it has one.

    payments   ├──── base: history, in one batch ────┤cut├──── live: the stream ────▶
    refunds    ├──── base ─────────┤cut├─────── live ───────────────────────────────▶

    The stream is named where a view has several: then tiles of one hop and start differ by it. Of a view with salt, a
    live tile is one of so many: (number, of how many).
    """

    stream: str | None = None
    is_base: bool = False
    salt_bucket: tuple[int, int] | None = None

    def __str__(self) -> str:
        side = "base" if self.is_base else ""
        label = side if self.stream is None else f"{side} of {self.stream}"
        return label if self.salt_bucket is None else f"{label} {self.salt_bucket[0]}/{self.salt_bucket[1]}"


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


# Every slot begins with c, the number of values in it: none means null.
PARTIAL_COLUMNS: dict[Partial, tuple[tuple[str, ColumnBlock], ...]] = {
    Partial.COUNT: (("c", ColumnBlock.INT_ADD),),
    Partial.INT_SUM: (("c", ColumnBlock.INT_ADD), ("hi", ColumnBlock.INT_ADD), ("lo", ColumnBlock.INT_ADD)),
    Partial.FLOAT_SUM: (("c", ColumnBlock.INT_ADD), ("s", ColumnBlock.FLOAT_ADD)),
    Partial.MOMENTS: (
        ("c", ColumnBlock.INT_ADD),
        ("mean", ColumnBlock.FLOAT_STATEFUL),
        ("m2", ColumnBlock.FLOAT_STATEFUL),
    ),
    Partial.DECAYED: (
        ("c", ColumnBlock.INT_ADD),
        ("wx", ColumnBlock.FLOAT_STATEFUL),
        ("w", ColumnBlock.FLOAT_STATEFUL),
    ),
    Partial.INT_MIN: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.INT_MIN)),
    Partial.INT_MAX: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.INT_MAX)),
    Partial.FLOAT_MIN: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.FLOAT_MIN)),
    Partial.FLOAT_MAX: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.FLOAT_MAX)),
    Partial.TEXT_MIN: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
    Partial.TEXT_MAX: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
    Partial.FIRST: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
    Partial.LAST: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
    Partial.DISTINCT: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
    Partial.QUANTILE: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
    Partial.TOP: (("c", ColumnBlock.INT_ADD), ("v", ColumnBlock.OBJECT)),
}
SKETCH_PARTIALS = {Partial.DISTINCT, Partial.QUANTILE, Partial.TOP}
SKETCH_SIZES = {
    "distinct": hyperloglog_lg_k,
    "quantile": kll_k,
    "top": frequent_items_lg_size,
    "count_by": frequent_items_lg_size,
}


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
            self.partial.value,
            self.column or "",
            self.kind.value if self.kind else "",
            str(self.where or ""),
            self.size,
        ]


def to_slot(aggregate: Aggregate) -> AggregateSlot:
    """The partial aggregate from which an aggregate is finished."""
    return AggregateSlot(_partial_of(aggregate), aggregate.column, aggregate.kind, aggregate.where, _size_of(aggregate))


def _size_of(aggregate: Aggregate) -> int:
    if aggregate.error is None:
        return aggregate.halflife_us or 0
    return SKETCH_SIZES[aggregate.function](aggregate.error)


def max_sketch_bytes(slot: AggregateSlot) -> int:
    """How large a slot's sketch can become, at most or nearly so; 0 where it has none."""
    match slot.partial:
        case Partial.DISTINCT:
            return 40 + (1 << slot.size)
        case Partial.QUANTILE:
            return 128 + 8 * 3 * slot.size  # levels of k, 2k/3, 4k/9 …, whatever the number of values
        case Partial.TOP:
            return 40 + map_capacity(slot.size) * (8 + (4 + 4 * MAX_TEXT_LENGTH if slot.kind is Kind.STRING else 8))
        case _:
            return 0


def _partial_of(aggregate: Aggregate) -> Partial:
    match aggregate.function, aggregate.kind:
        case "sum" | "mean", Kind.INTEGER:
            return Partial.INT_SUM
        case "sum" | "mean", _:
            return Partial.FLOAT_SUM
        case "stddev" | "var", _:
            return Partial.MOMENTS
        case "ewm", _:
            return Partial.DECAYED
        case "count_by", _:
            return Partial.TOP
        case "min" | "max" as function, kind:
            width = {Kind.DOUBLE: "float", Kind.STRING: "text"}.get(kind, "int") if kind else "int"
            return Partial(f"{width}_{function}")
        case function, _:
            return Partial(function)


@dataclass(frozen=True)
class HopLayout:
    """The columns of a view's tiles of one hop."""

    hop_us: int
    retention_us: int
    slots: tuple[AggregateSlot, ...]
    part: TilePart = TilePart()

    @property
    def is_kept_forever(self) -> bool:
        """Whether a lifetime window holds these tiles: none is ever let go of."""
        return self.retention_us >= FOREVER_US

    def columns(self) -> Iterator[tuple[int, str, ColumnBlock]]:
        """(slot number, suffix, block) of every partial, in the order of the row; objects last."""
        for block in ColumnBlock:
            for number, slot in enumerate(self.slots):
                for suffix, column_block in PARTIAL_COLUMNS[slot.partial]:
                    if column_block is block:
                        yield number, suffix, block

    @cached_property
    def fixed_columns(self) -> tuple[tuple[str, ColumnBlock], ...]:
        """Name and block of each fixed-width column after the head."""
        return tuple(
            (f"{suffix}{number}", block) for number, suffix, block in self.columns() if block is not ColumnBlock.OBJECT
        )

    @cached_property
    def object_names(self) -> tuple[str, ...]:
        """Names of the columns without a fixed width."""
        return tuple(f"{suffix}{number}" for number, suffix, block in self.columns() if block is ColumnBlock.OBJECT)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where in the row a fixed-width column stands."""
        return {name: len(HEAD_FIELDS) + index for index, (name, _) in enumerate(self.fixed_columns)}

    @cached_property
    def width(self) -> int:
        """Number of 8-byte fields of a row."""
        return len(HEAD_FIELDS) + len(self.fixed_columns)

    @cached_property
    def row_struct(self) -> struct.Struct:
        """How a row is packed: int64 fields, then float64 fields, little-endian."""
        ints = len(HEAD_FIELDS) + sum(block.store == "int" for _, block in self.fixed_columns)
        return struct.Struct(f"<{ints}q{self.width - ints}d")

    @cached_property
    def identities(self) -> dict[str, float | None]:
        """The value of no events of each column: what an absent field of the changelog means."""
        return dict.fromkeys(self.object_names) | {name: block.identity for name, block in self.fixed_columns}

    @cached_property
    def row_field_getter(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        """Takes the fields of a row, after its start, from a tile of the changelog."""
        return itemgetter("n", "t", "a", *(name for name, _ in self.fixed_columns))

    @cached_property
    def object_slots(self) -> tuple[tuple[str, AggregateSlot], ...]:
        """Name and slot of each column without a fixed width."""
        return tuple(
            (f"{suffix}{number}", self.slots[number])
            for number, suffix, block in self.columns()
            if block is ColumnBlock.OBJECT
        )

    def block_slice(self, block: ColumnBlock) -> slice:
        """The columns of a row that merge alike."""
        positions = [self.positions[name] for name, column_block in self.fixed_columns if column_block is block]
        return slice(positions[0], positions[-1] + 1) if positions else slice(0, 0)

    def slot_number(self, slot: AggregateSlot) -> int:
        return self.slots.index(slot)

    @cached_property
    def version(self) -> str:
        """A fingerprint of the layout: tiles of another version are not read."""
        description = json.dumps([self.hop_us, [slot.identity for slot in self.slots]]) + str(self.part)
        return hashlib.sha256(description.encode()).hexdigest()[:8]


def hop_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of a view's tiles, one a hop, shortest hop first, whichever part they are."""
    hops = sorted({feature.window.hop_us for feature in view.features})
    return tuple(_hop_layout(view, hop_us) for hop_us in hops)


def stream_layouts(stream: Stream, view: View, *, is_base: bool = False) -> tuple[HopLayout, ...]:
    """The layouts of the tiles that one of its streams, or that stream's history, feeds: the same but for a version."""
    part = TilePart(stream.name if len(view.streams) > 1 else None, is_base)
    return tuple(replace(layout, part=part) for layout in hop_layouts(view))


def live_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of what its streams feed: the hops of each, stream by stream in the order of their names.

    Of a view with salt they are of tiles that are not cut: what answers are made of, as nobody else knows of salt.
    """
    return tuple(layout for stream in view.sorted_streams for layout in stream_layouts(stream, view))


def salted_layouts(layout: HopLayout, view: View) -> tuple[HopLayout, ...]:
    """The layouts of the parts into which a view's salt cuts tiles; history is not cut."""
    if view.salt == 1 or layout.part.is_base:
        return (layout,)
    parts = (replace(layout.part, salt_bucket=(number, view.salt)) for number in range(view.salt))
    return tuple(replace(layout, part=part) for part in parts)


def salted_live_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of the tiles its streams feed: as many times those of `lives_of(view)` as it has parts."""
    parts = zip(*(salted_layouts(layout, view) for layout in live_layouts(view)), strict=True)
    return tuple(layout for part in parts for layout in part)


def base_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of the tiles that hold its streams' history, in the same order."""
    return tuple(layout for stream in view.sorted_streams for layout in stream_layouts(stream, view, is_base=True))


def all_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of everything that is read of a view: what its streams feed, then what is history."""
    return (*salted_live_layouts(view), *base_layouts(view))


def _hop_layout(view: View, hop_us: int) -> HopLayout:
    features = [feature for feature in view.features if feature.window.hop_us == hop_us]
    slots = tuple(sorted({to_slot(feature.aggregate) for feature in features}, key=lambda slot: slot.identity))
    longest_us = max(feature.window.length_us for feature in features)
    return HopLayout(hop_us, longest_us + hop_us, slots)
