"""The layout of a tile: the partial aggregates of one entity over one hop, as columns of a fixed-width row.

    row  = start n time arrival │ int add │ int min │ int max │ float add │ float min │ float max │ float keep
           └──────── head ─────┘ └──────────── int64 ────────┘ └──────────────── float64 ───────────────────┘
    objects = values without a fixed width: text, first and last values, sketches

Partials of one block are adjacent, so that a window is one numpy reduction a block, not one a feature.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

from headrace.aggregates.aggregate_function import to_slot
from headrace.aggregates.partial import AggregateSlot, ColumnBlock
from headrace.declare.features.view import View
from headrace.declare.features.windows import FOREVER_US
from headrace.declare.streams.stream import Stream

START, EVENT_COUNT, TIME, ARRIVAL = range(4)
HEAD_FIELDS = ("start", "n", "time", "arrival")


@dataclass(frozen=True)
class TilePart:
    """The events of a tile: those of one of a view's streams, on one side of its cutover if it has one.

    payments   ├──── base: history, in one batch ────┤cut├──── live: the stream ────▶
    refunds    ├──── base ─────────┤cut├─────── live ───────────────────────────────▶

    The stream is set where a view has several: then tiles of one hop and start differ by it. For a view with salt, a
    live tile is one of several parts: (number, of how many).
    """

    stream: str | None = None
    is_base: bool = False
    salt_bucket: tuple[int, int] | None = None

    def __str__(self) -> str:
        side = "base" if self.is_base else ""
        label = side if self.stream is None else f"{side} of {self.stream}"
        return label if self.salt_bucket is None else f"{label} {self.salt_bucket[0]}/{self.salt_bucket[1]}"


@dataclass(frozen=True)
class HopLayout:
    """The columns of a view's tiles of one hop."""

    hop_us: int
    retention_us: int
    slots: tuple[AggregateSlot, ...]
    part: TilePart = TilePart()

    @property
    def is_kept_forever(self) -> bool:
        """Whether a lifetime window holds these tiles: they are never deleted."""
        return self.retention_us >= FOREVER_US

    def columns(self) -> Iterator[tuple[int, str, ColumnBlock]]:
        """(slot number, suffix, block) of every partial, in the order of the row; objects last."""
        for block in ColumnBlock:
            for number, slot in enumerate(self.slots):
                for suffix, column_block in slot.partial.all_columns:
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
        """The index in the row of each fixed-width column."""
        return {name: len(HEAD_FIELDS) + index for index, (name, _) in enumerate(self.fixed_columns)}

    @cached_property
    def width(self) -> int:
        """The number of 8-byte fields of a row."""
        return len(HEAD_FIELDS) + len(self.fixed_columns)

    @cached_property
    def row_struct(self) -> struct.Struct:
        """The binary format of a row: int64 fields, then float64 fields, little-endian."""
        ints = len(HEAD_FIELDS) + sum(block.store == "int" for _, block in self.fixed_columns)
        return struct.Struct(f"<{ints}q{self.width - ints}d")

    @cached_property
    def identities(self) -> dict[str, float | None]:
        """The identity of each column's merge: the meaning of a missing field in the changelog."""
        return dict.fromkeys(self.object_names) | {name: block.identity for name, block in self.fixed_columns}

    @cached_property
    def row_field_getter(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        """A function that reads the fields of a row, without its start, from a tile of the changelog."""
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
        """The adjacent columns of a row that merge alike."""
        positions = [self.positions[name] for name, column_block in self.fixed_columns if column_block is block]
        return slice(positions[0], positions[-1] + 1) if positions else slice(0, 0)

    def slot_number(self, slot: AggregateSlot) -> int:
        return self.slots.index(slot)

    @cached_property
    def version(self) -> str:
        """A fingerprint of the layout: tiles of another version are ignored."""
        description = json.dumps([self.hop_us, [slot.identity for slot in self.slots]]) + str(self.part)
        return hashlib.sha256(description.encode()).hexdigest()[:8]


def hop_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of a view's tiles, one for each hop, shortest hop first, whichever part they are."""
    hops = sorted({feature.window.hop_us for feature in view.features})
    return tuple(_hop_layout(view, hop_us) for hop_us in hops)


def stream_layouts(stream: Stream, view: View, *, is_base: bool = False) -> tuple[HopLayout, ...]:
    """The layouts of the tiles that one stream, or its history, feeds: they differ only in version."""
    part = TilePart(stream.name if len(view.streams) > 1 else None, is_base)
    return tuple(replace(layout, part=part) for layout in hop_layouts(view))


def live_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of the tiles that its streams feed: the hops of each, in the order of the streams' names.

    For a view with salt they are of merged parts, as readers use them, since only the store knows of salt.
    """
    return tuple(layout for stream in view.sorted_streams for layout in stream_layouts(stream, view))


def salted_layouts(layout: HopLayout, view: View) -> tuple[HopLayout, ...]:
    """The layouts of the parts into which a view's salt divides tiles; history is not divided."""
    if view.salt == 1 or layout.part.is_base:
        return (layout,)
    parts = (replace(layout.part, salt_bucket=(number, view.salt)) for number in range(view.salt))
    return tuple(replace(layout, part=part) for part in parts)


def salted_live_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of the tiles its streams feed: those of `live_layouts(view)`, once for each part."""
    parts = zip(*(salted_layouts(layout, view) for layout in live_layouts(view)), strict=True)
    return tuple(layout for part in parts for layout in part)


def base_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of the tiles of its streams' history, in the same order."""
    return tuple(layout for stream in view.sorted_streams for layout in stream_layouts(stream, view, is_base=True))


def all_layouts(view: View) -> tuple[HopLayout, ...]:
    """The layouts of all tiles of a view: those its streams feed, then those of history."""
    return (*salted_live_layouts(view), *base_layouts(view))


def _hop_layout(view: View, hop_us: int) -> HopLayout:
    features = [feature for feature in view.features if feature.window.hop_us == hop_us]
    slots = tuple(sorted({to_slot(feature.aggregate) for feature in features}, key=lambda slot: slot.identity))
    longest_us = max(feature.window.length_us for feature in features)
    return HopLayout(hop_us, longest_us + hop_us, slots)
