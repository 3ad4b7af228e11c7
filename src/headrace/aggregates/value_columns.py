"""Columns of event values in numpy: data and validity."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.streams.schema import Kind

Data = NDArray[Any]
Mask = NDArray[np.bool_]

DTYPES: dict[Kind, Any] = {
    Kind.STRING: object,
    Kind.BOOLEAN: np.bool_,
    Kind.INTEGER: np.int64,
    Kind.DOUBLE: np.float64,
    Kind.TIMESTAMP: np.int64,
}
_BLANKS: dict[Kind, Any] = {
    Kind.STRING: "",
    Kind.BOOLEAN: False,
    Kind.INTEGER: 0,
    Kind.DOUBLE: 0.0,
    Kind.TIMESTAMP: 0,
}


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column; where it is not valid it is null, and the data there must not be read."""

    data: Data
    valid: Mask

    def __len__(self) -> int:
        return len(self.valid)

    def __getitem__(self, rows: Any) -> "ValueColumn":
        return ValueColumn(self.data[rows], self.valid[rows])


@dataclass(frozen=True, slots=True)
class MapColumn:
    """A column of maps, whose entries are row by row in two flat columns; a row's entries may start anywhere."""

    starts: Data
    sizes: Data
    keys: Data
    counts: Data

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: Any) -> "MapColumn":
        return MapColumn(self.starts[rows], self.sizes[rows], self.keys, self.counts)

    @property
    def offsets(self) -> Data:
        """The number of entries before each row, and in total."""
        return np.append(0, np.cumsum(self.sizes))

    @property
    def entry_indices(self) -> Data:
        """The indices of the entries of the first row, then those of the second, and so on."""
        indices: Data = np.arange(self.offsets[-1]) + np.repeat(self.starts - self.offsets[:-1], self.sizes)
        return indices


def to_value_column(values: Sequence[Any], kind: Kind) -> ValueColumn:
    """The column of values of one kind, None for null; timestamps in µs."""
    blank = _BLANKS[kind]
    data = np.empty(len(values), DTYPES[kind])
    data[:] = [blank if value is None else value for value in values]
    return ValueColumn(data, _to_mask(value is not None for value in values))


def constant_column(value: Any, count: int) -> ValueColumn:
    """A column of one value."""
    data = np.empty(count, object if isinstance(value, str) else type(value))
    data.fill(value)  # not np.full, which converts text to numpy's own type and drops trailing zeros
    return ValueColumn(data, np.ones(count, np.bool_))


def _to_mask(present: Iterable[bool]) -> Mask:
    return np.fromiter(present, np.bool_)
