"""Columns that say nothing by themselves: they are merged slot by slot, with the slot's other columns in sight."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Column = Sequence[Any]


class RowArrays(NamedTuple):
    """Rows in numpy: all fields as integers, and the same bytes as floats."""

    ints: NDArray[np.int64]
    floats: NDArray[np.float64]


class ColumnPosition(NamedTuple):
    """Where a column stands: among those unpacked of a few rows, and in a whole row."""

    unpacked: int
    in_row: int


class StatefulMerge(Protocol):
    """The merge of one slot, of a few rows without numpy and of many with it; both give its columns in their order."""

    def merge_scalars(self, starts: Column, columns: Sequence[Column]) -> tuple[float, ...]:
        """Its columns merged; `columns` are those a reader unpacks, `starts` when each row's tile begins."""

    def merge_arrays(self, rows: RowArrays) -> tuple[float, ...]:
        """The same of whole rows."""


def float_sum(values: Column) -> float:
    """The sum from the first to the last, as numpy's of a few."""
    # Not sum(): from Python 3.12 on it corrects its rounding, and the value would depend on the version.
    total: float = reduce(add, values)
    return total
