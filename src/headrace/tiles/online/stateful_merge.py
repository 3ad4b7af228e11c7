"""Partials whose columns say nothing by themselves: merged slot by slot, two numbers each, with the others in sight.

moments     mean, m2    of n values, from the n, mean and m2 of parts (Chan et al.)
decayed     wx, w       weighted sums, each part's as of its own end:

    [tile][tile]      [tile]          a part that ended a half-life before the newest one with a value counts half
     × ¼   × ½         × 1            whatever the time asked, since it would multiply both sums alike
"""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.tiles.layout import HopLayout, Partial

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Column = Sequence[Any]


class RowArrays(NamedTuple):
    """Rows in numpy: all fields as integers, and the same bytes as floats."""

    ints: Ints
    floats: Floats


class SlotMerge(Protocol):
    """The merge of one slot, of a few rows without numpy and of many with it."""

    def merge_scalars(self, starts: Column, columns: Sequence[Column]) -> tuple[float, float]:
        """Its two columns merged; `columns` are those a reader unpacks."""

    def merge_arrays(self, rows: RowArrays) -> tuple[float, float]:
        """The same of whole rows."""


def slot_merges(layout: HopLayout, positions: dict[str, int]) -> list[SlotMerge]:
    """The merges of a layout's slots, in the order of their columns; `place` tells where a reader unpacks each."""
    merges: list[SlotMerge] = []
    for number, slot in enumerate(layout.slots):
        if slot.partial is Partial.MOMENTS:
            merges.append(
                _MomentsMerge(
                    *(
                        _ColumnPosition.from_layout(layout, positions, f"{suffix}{number}")
                        for suffix in ("c", "mean", "m2")
                    )
                )
            )
        elif slot.partial is Partial.DECAYED:
            c, wx, w = (
                _ColumnPosition.from_layout(layout, positions, f"{suffix}{number}") for suffix in ("c", "wx", "w")
            )
            merges.append(_DecayedMerge(c, wx, w, slot.size))
    return merges


class _ColumnPosition(NamedTuple):
    """Where a column stands: among those unpacked of a few rows, and in a whole row."""

    unpacked: int
    in_row: int

    @classmethod
    def from_layout(cls, layout: HopLayout, positions: dict[str, int], name: str) -> "_ColumnPosition":
        return cls(positions[name], layout.positions[name])


class _MomentsMerge(NamedTuple):
    c: _ColumnPosition
    mean: _ColumnPosition
    m2: _ColumnPosition

    def merge_scalars(self, _: Column, columns: Sequence[Column]) -> tuple[float, float]:
        c, mean, m2 = columns[self.c.unpacked], columns[self.mean.unpacked], columns[self.m2.unpacked]
        total_mean = float_sum([count * part_mean for count, part_mean in zip(c, mean, strict=True)]) / (sum(c) or 1)
        between_parts = [count * (part - total_mean) * (part - total_mean) for count, part in zip(c, mean, strict=True)]
        return total_mean, float_sum(m2) + float_sum(between_parts)

    def merge_arrays(self, rows: RowArrays) -> tuple[float, float]:
        c, mean, m2 = rows.ints[:, self.c.in_row], rows.floats[:, self.mean.in_row], rows.floats[:, self.m2.in_row]
        total_mean = c.dot(mean) / (np.add.reduce(c) or 1)
        deviation = mean - total_mean
        return float(total_mean), float(np.add.reduce(m2) + (c * deviation).dot(deviation))


class _DecayedMerge(NamedTuple):
    c: _ColumnPosition
    wx: _ColumnPosition
    w: _ColumnPosition
    halflife_us: int

    def merge_scalars(self, starts: Column, columns: Sequence[Column]) -> tuple[float, float]:
        c, wx, w = columns[self.c.unpacked], columns[self.wx.unpacked], columns[self.w.unpacked]
        parts = [(start, wx[row], w[row]) for row, start in enumerate(starts) if c[row]]
        if not parts:
            return 0.0, 0.0
        newest = max(start for start, _, _ in parts)
        weights = [2.0 ** ((start - newest) / self.halflife_us) for start, _, _ in parts]
        sums = [
            weighted_sum * weight if math.isfinite(weighted_sum) else weighted_sum
            for weight, (_, weighted_sum, _) in zip(weights, parts, strict=True)
        ]
        return float_sum(sums), float_sum(
            [weight_sum * weight for weight, (_, _, weight_sum) in zip(weights, parts, strict=True)]
        )

    def merge_arrays(self, rows: RowArrays) -> tuple[float, float]:
        mask = rows.ints[:, self.c.in_row] > 0
        if not mask.any():
            return 0.0, 0.0
        starts, wx, w = rows.ints[mask, 0], rows.floats[mask, self.wx.in_row], rows.floats[mask, self.w.in_row]
        weights = np.exp2((starts - starts.max()) / self.halflife_us)
        # An infinity has no weight: of one long ago it would be 0, and the two make NaN.
        sums = np.where(np.isfinite(wx), wx * weights, wx)
        return float(np.add.reduce(sums)), float(w.dot(weights))


def float_sum(values: Column) -> float:
    """The sum from the first to the last, as numpy's of a few."""
    # Not sum(): from Python 3.12 on it corrects its rounding, and the value would depend on the version.
    total: float = reduce(add, values)
    return total
