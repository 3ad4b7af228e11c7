"""Reading is merging: the values of an entity's features at a time, from its tiles.

        ├ hop ┤
────────┼─────┼─────┼─────┼─────┼──▶ event time       one numpy reduction a kind of partial and window,
  [tile][tile][tile][tile][tile]                       whatever the number of features
     ↑  └── in the window at ───┘
   too old                   at

A view of several streams has tiles of a part each, and one that was backfilled of two: reading merges those too.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.views import Feature, View
from headrace.tiles.few import FEW, FEW_MERGES
from headrace.tiles.finish import Finish, Objects, default_of, finisher
from headrace.tiles.kept import Rows, kept_of
from headrace.tiles.layout import COLUMNS, HEAD, Block, HopLayout, Partial, layouts_of, slot_of
from headrace.tiles.rows import TileRows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Outputs = list[tuple[int, Finish]]

# fmin passes over NaN, the identity of a minimum; maximum lets it win: NaN is greater than every number.
_REDUCTIONS = {
    Block.INT_ADD: np.add,
    Block.INT_MIN: np.minimum,
    Block.INT_MAX: np.maximum,
    Block.FLOAT_ADD: np.add,
    Block.FLOAT_MIN: np.fmin,
    Block.FLOAT_MAX: np.maximum,
}


class Reader:
    """The values of a view's features, in their order, from the rows of one entity.

    Timestamps are datetimes in UTC, floats may be non-finite, and what has no value is None.
    """

    def __init__(self, view: View) -> None:
        layouts = layouts_of(view)
        self.default_row = [default_of(feature.aggregate) for feature in view.features]
        self._hops, self._streams = len(layouts), len(view.streams)
        self._windows = [
            _Window(hop, layout, length_us, view.features)
            for hop, layout in enumerate(layouts)
            for length_us in sorted({f.window.length_us for f in view.features if f.window.hop_us == layout.hop_us})
        ]

    def values(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[Any]:
        """The values at a time; None where nothing is.

        `rows_by_hop` has the order of `lives_of(view)` or, where there are more parts, of `parts_of(view)`.
        """
        if len(rows_by_hop) > self._hops:
            return self._values_of_parts(rows_by_hop, at_us)
        values: list[Any] = self.default_row.copy()
        for window in self._windows:
            rows = rows_by_hop[window.hop]
            if rows is not None:
                window.read(rows, at_us, values)
        return values

    def _values_of_parts(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[Any]:
        values: list[Any] = self.default_row.copy()
        for window in self._windows:
            if parts := self._parts(rows_by_hop, window.hop):
                window.read_parts(parts, at_us, values)
        return values

    def _parts(self, rows_by_hop: Sequence[TileRows | None], hop: int) -> list[TileRows]:
        """Of one hop all parts of what each stream has fed: of events alike in all else their order decides."""
        step = self._hops * self._streams
        places = range(hop, step, self._hops)
        return [rows for place in places for rows in rows_by_hop[place::step] if rows is not None]


class _Window:
    """One merge: all features of one hop and one length."""

    def __init__(self, hop: int, layout: HopLayout, length_us: int, features: Sequence[Feature]) -> None:
        self.hop = hop
        self._reach_us = length_us + layout.hop_us
        mine = [
            (index, feature)
            for index, feature in enumerate(features)
            if (feature.window.hop_us, feature.window.length_us) == (layout.hop_us, length_us)
        ]
        self._merge = _Merge(layout, {slot_of(feature.aggregate).partial for _, feature in mine})
        place = self._merge.place
        self._outputs: Outputs = [(index, finisher(feature.aggregate, layout, place)) for index, feature in mine]
        self._outputs_of_parts: Outputs = [
            (index, finisher(feature.aggregate, layout, place, overlapping=True)) for index, feature in mine
        ]

    def read(self, rows: TileRows, at_us: int, values: list[Any]) -> None:
        """Put the values of this window's features into their places."""
        copied, objects = rows.between(at_us - self._reach_us, at_us)
        if copied:
            self._finish(self._outputs, self._merge.columns(copied), objects, values)

    def read_parts(self, parts: Sequence[TileRows], at_us: int, values: list[Any]) -> None:
        """The same of rows that overlap: what they hold together is what one row of each start would."""
        copied, objects = bytearray(), []
        for rows in parts:
            its_rows, its_objects = rows.between(at_us - self._reach_us, at_us)
            copied += its_rows
            objects += its_objects
        if copied:
            self._finish(self._outputs_of_parts, self._merge.columns(copied), objects, values)

    def _finish(self, outputs: Outputs, merged: list[Any], objects: Objects, values: list[Any]) -> None:
        for index, finish in outputs:
            values[index] = finish(merged, objects)


class _Merge:
    """Merges the fixed-width columns of rows, block by block: those its features read."""

    def __init__(self, layout: HopLayout, partials: set[Partial]) -> None:
        of_numbers = [COLUMNS[partial] for partial in partials if COLUMNS[partial][-1][1] is not Block.OBJECT]
        read = {block for columns in of_numbers for _, block in columns}
        self._width = layout.width
        self._row = layout.row
        self._reductions = [
            (_REDUCTIONS[block].reduce, layout.span(block), block.store == "int")
            for block in _REDUCTIONS
            if block in read
        ]
        names = [name for name, block in layout.fixed if block in read]
        self.place = {name: index for index, name in enumerate(names)}
        self._few = _struct_of(layout, set(names))
        self._merges = [FEW_MERGES[block] for _, block in layout.fixed if block in read and block in FEW_MERGES]
        self._kept = kept_of(layout, self.place) if Block.FLOAT_KEEP in read else []

    def columns(self, rows: bytearray) -> list[Any]:
        """Each column of the read blocks, merged to one value."""
        if len(rows) <= FEW * self._row.size:
            return self._merged_few(*zip(*self._few.iter_unpack(rows), strict=True))
        with np.errstate(all="ignore"):
            return self._reduced(rows)

    def _merged_few(self, starts: tuple[int, ...], *columns: tuple[Any, ...]) -> list[Any]:
        # The columns that are merged slot by slot come last.
        merged = [merge(column) for merge, column in zip(self._merges, columns, strict=False)]
        for kept in self._kept:
            merged += kept.few(starts, columns)
        return merged

    def _reduced(self, rows: bytearray) -> list[Any]:
        ints: Ints = np.frombuffer(rows, np.int64).reshape(-1, self._width)
        floats: Floats = ints.view(np.float64)
        merged: list[Any] = []
        for reduce, span, is_int in self._reductions:
            merged += reduce((ints if is_int else floats)[:, span], 0).tolist()
        for kept in self._kept:
            merged += kept.many(Rows(ints, floats))
        return merged


def _struct_of(layout: HopLayout, names: set[str]) -> struct.Struct:
    """Unpacks a row's start and some of its columns, and passes over the others."""
    codes = {"int": "q", "float": "d"}
    columns = "".join(codes[block.store] if name in names else "8x" for name, block in layout.fixed)
    return struct.Struct(f"<q{8 * (len(HEAD) - 1)}x{columns}")
