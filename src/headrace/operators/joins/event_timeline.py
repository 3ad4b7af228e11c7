"""The events in a join's state, ordered by time: found by range, removed from the oldest on.

removed   ┊ ●  ●   ●●    ●      ●   ●
          └ oldest   └─ between ─┘
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter
from typing import Any, Generic, TypeVar

from headrace.aggregates.partial import Scalar

RowPosition = tuple[
    int, int, Scalar
]  # event time, arrival and id of a row: of two at one time the later arrival is last


@dataclass(slots=True)
class JoinRow:
    """An event in a join's state: its values are the columns of its side, in their order."""

    time_us: int
    arrival_us: int
    id: Scalar
    values: list[Any]

    @property
    def position(self) -> RowPosition:
        return self.time_us, self.arrival_us, self.id


RowT = TypeVar("RowT", bound=JoinRow)
_TIME, _POSITION = attrgetter("time_us"), attrgetter("position")


class EventTimeline(Generic[RowT]):
    """Rows by position. Removed ones leave a gap at the front, which is closed when it is half of all: few moves."""

    def __init__(self, rows: Iterable[RowT] = ()) -> None:
        self._rows, self._forgotten = list(rows), 0

    def __len__(self) -> int:
        return len(self._rows) - self._forgotten

    def __iter__(self) -> Iterator[RowT]:
        return iter(self._rows[self._forgotten :])

    def __getitem__(self, index: int) -> RowT:
        """The row at an index; the oldest is 0."""
        return self._rows[self._forgotten + index]

    def insert(self, row: RowT) -> None:
        insort(self._rows, row, lo=self._forgotten, key=_POSITION)

    def find_row(self, position: RowPosition) -> RowT:
        """The row at a position that exists."""
        return self._rows[bisect_left(self._rows, position, lo=self._forgotten, key=_POSITION)]

    def first_index_from(self, time_us: int) -> int:
        """The index of the first row from a time on, or the one it would have."""
        return bisect_left(self._rows, time_us, lo=self._forgotten, key=_TIME) - self._forgotten

    def rows_between(self, from_us: int, to_us: int) -> Sequence[RowT]:
        """The rows from one time to another, both included."""
        return self._rows[
            self._forgotten + self.first_index_from(from_us) : self._forgotten + self.first_index_from(to_us + 1)
        ]

    def forget_oldest(self, count: int) -> None:
        """Remove this many of the oldest rows."""
        self._forgotten += count
        if self._forgotten * 2 >= len(self._rows):
            del self._rows[: self._forgotten]
            self._forgotten = 0


def encode_row(row: JoinRow) -> list[Any]:
    """A row as JSON, which has no NaN and no infinities: they are text in a list."""
    values = [[str(value)] if isinstance(value, float) and not isfinite(value) else value for value in row.values]
    return [row.time_us, row.arrival_us, row.id, values]


def decode_row(encoded: Sequence[Any]) -> tuple[int, int, Scalar, list[Any]]:
    """The fields of an encoded row."""
    time_us, arrival_us, row_id, values = encoded
    return time_us, arrival_us, row_id, [float(value[0]) if isinstance(value, list) else value for value in values]
