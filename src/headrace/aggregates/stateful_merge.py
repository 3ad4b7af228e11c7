"""Stateful merges: columns that are merged slot by slot, because they depend on the slot's other columns."""

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
    """The position of a column: among the fields unpacked from a few rows, and in a whole row."""

    unpacked: int
    in_row: int


class StatefulMerge(Protocol):
    """The merge of one slot, of a few rows without numpy and of many with it; both return its columns in order."""

    def merge_scalars(self, starts: Column, columns: Sequence[Column]) -> tuple[float, ...]:
        """Merge its columns; `columns` are those a reader unpacks, `starts` the start of each row's tile."""

    def merge_arrays(self, rows: RowArrays) -> tuple[float, ...]:
        """Merge its columns in whole rows."""


def float_sum(values: Column) -> float:
    """The sum from the first to the last value, as numpy adds a few."""
    # Not sum(): from Python 3.12 on it compensates rounding, and the result would depend on the version.
    total: float = reduce(add, values)
    return total
