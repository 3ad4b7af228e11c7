"""Merges a few rows without numpy, whose call costs more than it saves up to about twenty rows.

The same merges as numpy's: minima skip NaN, maxima propagate it, sums go from the first to the last.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from headrace.aggregates.partial import ColumnBlock
from headrace.aggregates.stateful_merge import float_sum

MAX_SCALAR_ROWS = 16

Column = Sequence[Any]


def _float_min(values: Column) -> float:
    if not _has_nan(values):
        return float(min(values))
    return min([value for value in values if not math.isnan(value)], default=math.nan)


def _float_max(values: Column) -> float:
    return math.nan if _has_nan(values) else float(max(values))


def _has_nan(values: Column) -> bool:
    """NaN makes a sum NaN; so do two opposite infinities, which are checked one by one."""
    return math.isnan(sum(values)) and any(map(math.isnan, values))


SCALAR_MERGES: dict[ColumnBlock, Callable[[Column], Any]] = {
    ColumnBlock.INT_ADD: sum,
    ColumnBlock.INT_MIN: min,
    ColumnBlock.INT_MAX: max,
    ColumnBlock.FLOAT_ADD: float_sum,
    ColumnBlock.FLOAT_MIN: _float_min,
    ColumnBlock.FLOAT_MAX: _float_max,
}
