"""Reads the values of an entity's features at a time, by merging its tiles.

        ├ hop ┤
────────┼─────┼─────┼─────┼─────┼──▶ event time       one numpy reduction a kind of partial and window,
  [tile][tile][tile][tile][tile]                       whatever the number of features
     ↑  └── in the window at ───┘
   too old                   at

A view of several streams has tiles of each, a backfilled one has two parts of each: reading merges those too.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.aggregates.aggregate_function import to_slot
from headrace.aggregates.partial import ColumnBlock, Finisher, ObjectRows, Partial
from headrace.aggregates.stateful_merge import RowArrays
from headrace.declare.features.view import Feature, View
from headrace.tiles.finish import default_value, make_finisher
from headrace.tiles.layout import HEAD_FIELDS, HopLayout, hop_layouts
from headrace.tiles.online.scalar_merge import MAX_SCALAR_ROWS, SCALAR_MERGES
from headrace.tiles.online.slot_merges import stateful_merges
from headrace.tiles.online.tile_rows import TileRows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Outputs = list[tuple[int, Finisher]]

# fmin skips NaN, the identity of a minimum; maximum propagates it: NaN is greater than every number.
_REDUCTIONS = {
    ColumnBlock.INT_ADD: np.add,
    ColumnBlock.INT_MIN: np.minimum,
    ColumnBlock.INT_MAX: np.maximum,
    ColumnBlock.FLOAT_ADD: np.add,
    ColumnBlock.FLOAT_MIN: np.fmin,
    ColumnBlock.FLOAT_MAX: np.maximum,
}


class FeatureReader:
    """The values of a view's features, in their order, from the rows of one entity.

    Timestamps are datetimes in UTC, floats may be non-finite, and a missing value is None.
    """

    def __init__(self, view: View) -> None:
        layouts = hop_layouts(view)
        self.default_row = [default_value(feature.aggregate) for feature in view.features]
        self._hop_count, self._stream_count = len(layouts), len(view.streams)
        self._windows = [
            _WindowReader(hop_index, layout, length_us, view.features)
            for hop_index, layout in enumerate(layouts)
            for length_us in sorted({f.window.length_us for f in view.features if f.window.hop_us == layout.hop_us})
        ]

    def read_values(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[Any]:
        """The values at a time; None where there is no tile.

        `rows_by_hop` has the order of `live_layouts(view)` or, with more parts, of `all_layouts(view)`.
        """
        if len(rows_by_hop) > self._hop_count:
            return self._read_values_of_parts(rows_by_hop, at_us)
        values: list[Any] = self.default_row.copy()
        for window in self._windows:
            rows = rows_by_hop[window.hop_index]
            if rows is not None:
                window.read(rows, at_us, values)
        return values

    def _read_values_of_parts(self, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[Any]:
        values: list[Any] = self.default_row.copy()
        for window in self._windows:
            if parts := self._parts_of_hop(rows_by_hop, window.hop_index):
                window.read_parts(parts, at_us, values)
        return values

    def _parts_of_hop(self, rows_by_hop: Sequence[TileRows | None], hop_index: int) -> list[TileRows]:
        """All parts of each stream for one hop: for events equal in all else the order of parts decides."""
        step = self._hop_count * self._stream_count
        layout_indices = range(hop_index, step, self._hop_count)
        return [rows for layout_index in layout_indices for rows in rows_by_hop[layout_index::step] if rows is not None]


class _WindowReader:
    """One merge: all features of one hop and one length."""

    def __init__(self, hop_index: int, layout: HopLayout, length_us: int, features: Sequence[Feature]) -> None:
        self.hop_index = hop_index
        self._lookback_us = length_us + layout.hop_us
        window_features = [
            (index, feature)
            for index, feature in enumerate(features)
            if (feature.window.hop_us, feature.window.length_us) == (layout.hop_us, length_us)
        ]
        self._merge = _ColumnMerge(layout, {to_slot(feature.aggregate).partial for _, feature in window_features})
        positions = self._merge.positions
        self._outputs: Outputs = [
            (index, make_finisher(feature.aggregate, layout, positions)) for index, feature in window_features
        ]
        self._outputs_of_parts: Outputs = [
            (index, make_finisher(feature.aggregate, layout, positions, overlapping=True))
            for index, feature in window_features
        ]

    def read(self, rows: TileRows, at_us: int, values: list[Any]) -> None:
        """Set the values of this window's features."""
        row_bytes, objects = rows.rows_between(at_us - self._lookback_us, at_us)
        if row_bytes:
            self._finish(self._outputs, self._merge.merge_columns(row_bytes), objects, values)

    def read_parts(self, parts: Sequence[TileRows], at_us: int, values: list[Any]) -> None:
        """The same from overlapping rows: the result is that of one row for each start."""
        row_bytes, objects = bytearray(), []
        for rows in parts:
            part_bytes, part_objects = rows.rows_between(at_us - self._lookback_us, at_us)
            row_bytes += part_bytes
            objects += part_objects
        if row_bytes:
            self._finish(self._outputs_of_parts, self._merge.merge_columns(row_bytes), objects, values)

    def _finish(self, outputs: Outputs, merged: list[Any], objects: ObjectRows, values: list[Any]) -> None:
        for index, finish in outputs:
            values[index] = finish(merged, objects)


class _ColumnMerge:
    """Merges the fixed-width columns of rows, block by block: those its features read."""

    def __init__(self, layout: HopLayout, partials: set[Partial]) -> None:
        numeric_columns = [partial.all_columns for partial in partials if not partial.has_object]
        read_blocks = {block for columns in numeric_columns for _, block in columns}
        self._width = layout.width
        self._row_struct = layout.row_struct
        self._reductions = [
            (_REDUCTIONS[block].reduce, layout.block_slice(block), block.store == "int")
            for block in _REDUCTIONS
            if block in read_blocks
        ]
        names = [name for name, block in layout.fixed_columns if block in read_blocks]
        self.positions = {name: index for index, name in enumerate(names)}
        self._scalar_struct = _column_struct(layout, set(names))
        self._scalar_merges = [
            SCALAR_MERGES[block] for _, block in layout.fixed_columns if block in read_blocks and block in SCALAR_MERGES
        ]
        self._slot_merges = stateful_merges(layout, self.positions) if ColumnBlock.FLOAT_STATEFUL in read_blocks else []

    def merge_columns(self, rows: bytearray) -> list[Any]:
        """Each column of the read blocks, merged to one value."""
        if len(rows) <= MAX_SCALAR_ROWS * self._row_struct.size:
            return self._merge_scalars(*zip(*self._scalar_struct.iter_unpack(rows), strict=True))
        with np.errstate(all="ignore"):
            return self._merge_arrays(rows)

    def _merge_scalars(self, starts: tuple[int, ...], *columns: tuple[Any, ...]) -> list[Any]:
        # The columns that are merged slot by slot come last.
        merged = [merge(column) for merge, column in zip(self._scalar_merges, columns, strict=False)]
        for slot_merge in self._slot_merges:
            merged += slot_merge.merge_scalars(starts, columns)
        return merged

    def _merge_arrays(self, rows: bytearray) -> list[Any]:
        ints: Ints = np.frombuffer(rows, np.int64).reshape(-1, self._width)
        floats: Floats = ints.view(np.float64)
        merged: list[Any] = []
        for reduce, span, is_int in self._reductions:
            merged += reduce((ints if is_int else floats)[:, span], 0).tolist()
        for slot_merge in self._slot_merges:
            merged += slot_merge.merge_arrays(RowArrays(ints, floats))
        return merged


def _column_struct(layout: HopLayout, names: set[str]) -> struct.Struct:
    """Unpacks a row's start and some of its columns, and skips the others."""
    codes = {"int": "q", "float": "d"}
    columns = "".join(codes[block.store] if name in names else "8x" for name, block in layout.fixed_columns)
    return struct.Struct(f"<q{8 * (len(HEAD_FIELDS) - 1)}x{columns}")
