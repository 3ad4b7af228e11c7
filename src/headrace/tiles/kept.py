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


class Rows(NamedTuple):
    """Rows in numpy: all fields as integers, and the same bytes as floats."""

    ints: Ints
    floats: Floats


class Kept(Protocol):
    """The merge of one slot, of a few rows without numpy and of many with it."""

    def few(self, starts: Column, columns: Sequence[Column]) -> tuple[float, float]:
        """Its two columns merged; `columns` are those a reader unpacks."""

    def many(self, rows: Rows) -> tuple[float, float]:
        """The same of whole rows."""


def kept_of(layout: HopLayout, place: dict[str, int]) -> list[Kept]:
    """The merges of a layout's slots, in the order of their columns; `place` tells where a reader unpacks each."""
    found: list[Kept] = []
    for number, slot in enumerate(layout.slots):
        if slot.partial is Partial.MOMENTS:
            found.append(_Moments(*(_Place.of(layout, place, f"{suffix}{number}") for suffix in ("c", "mean", "m2"))))
        elif slot.partial is Partial.DECAYED:
            c, wx, w = (_Place.of(layout, place, f"{suffix}{number}") for suffix in ("c", "wx", "w"))
            found.append(_Decayed(c, wx, w, slot.size))
    return found


class _Place(NamedTuple):
    """Where a column stands: among those unpacked of a few rows, and in a whole row."""

    few: int
    many: int

    @classmethod
    def of(cls, layout: HopLayout, place: dict[str, int], name: str) -> "_Place":
        return cls(place[name], layout.position[name])


class _Moments(NamedTuple):
    c: _Place
    mean: _Place
    m2: _Place

    def few(self, _: Column, columns: Sequence[Column]) -> tuple[float, float]:
        c, mean, m2 = columns[self.c.few], columns[self.mean.few], columns[self.m2.few]
        overall = float_sum([count * part for count, part in zip(c, mean, strict=True)]) / (sum(c) or 1)
        between = [count * (part - overall) * (part - overall) for count, part in zip(c, mean, strict=True)]
        return overall, float_sum(m2) + float_sum(between)

    def many(self, rows: Rows) -> tuple[float, float]:
        c, mean, m2 = rows.ints[:, self.c.many], rows.floats[:, self.mean.many], rows.floats[:, self.m2.many]
        overall = c.dot(mean) / (np.add.reduce(c) or 1)
        deviation = mean - overall
        return float(overall), float(np.add.reduce(m2) + (c * deviation).dot(deviation))


class _Decayed(NamedTuple):
    c: _Place
    wx: _Place
    w: _Place
    halflife_us: int

    def few(self, starts: Column, columns: Sequence[Column]) -> tuple[float, float]:
        c, wx, w = columns[self.c.few], columns[self.wx.few], columns[self.w.few]
        parts = [(start, wx[row], w[row]) for row, start in enumerate(starts) if c[row]]
        if not parts:
            return 0.0, 0.0
        newest = max(start for start, _, _ in parts)
        weights = [2.0 ** ((start - newest) / self.halflife_us) for start, _, _ in parts]
        sums = [x * weight if math.isfinite(x) else x for weight, (_, x, _) in zip(weights, parts, strict=True)]
        return float_sum(sums), float_sum([part * weight for weight, (_, _, part) in zip(weights, parts, strict=True)])

    def many(self, rows: Rows) -> tuple[float, float]:
        taken = rows.ints[:, self.c.many] > 0
        if not taken.any():
            return 0.0, 0.0
        starts, wx, w = rows.ints[taken, 0], rows.floats[taken, self.wx.many], rows.floats[taken, self.w.many]
        weights = np.exp2((starts - starts.max()) / self.halflife_us)
        # An infinity has no weight: of one long ago it would be 0, and the two make NaN.
        sums = np.where(np.isfinite(wx), wx * weights, wx)
        return float(np.add.reduce(sums)), float(w.dot(weights))


def float_sum(values: Column) -> float:
    """The sum from the first to the last, as numpy's of a few."""
    # Not sum(): from Python 3.12 on it corrects its rounding, and the value would depend on the version.
    total: float = reduce(add, values)
    return total
