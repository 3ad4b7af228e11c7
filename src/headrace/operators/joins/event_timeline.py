"""Events a join keeps, in the order of their times: found by range, forgotten from the oldest on.

forgotten ┊ ●  ●   ●●    ●      ●   ●
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
]  # when a row happened and arrived, and its id: of two at one time the later to come


@dataclass(slots=True)
class JoinRow:
    """An event as a join keeps it: its values are those of its side's columns, in their order."""

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
    """Rows by their places. Those forgotten leave a gap at the front, closed when it is half of all: moves are few."""

    def __init__(self, rows: Iterable[RowT] = ()) -> None:
        self._rows, self._forgotten = list(rows), 0

    def __len__(self) -> int:
        return len(self._rows) - self._forgotten

    def __iter__(self) -> Iterator[RowT]:
        return iter(self._rows[self._forgotten :])

    def __getitem__(self, index: int) -> RowT:
        """The row of a number, the oldest is 0."""
        return self._rows[self._forgotten + index]

    def insert(self, row: RowT) -> None:
        insort(self._rows, row, lo=self._forgotten, key=_POSITION)

    def find_row(self, position: RowPosition) -> RowT:
        """The row of a place, which is known to be there."""
        return self._rows[bisect_left(self._rows, position, lo=self._forgotten, key=_POSITION)]

    def first_index_from(self, time_us: int) -> int:
        """The number of the first row from a time on, or the one it would have."""
        return bisect_left(self._rows, time_us, lo=self._forgotten, key=_TIME) - self._forgotten

    def rows_between(self, from_us: int, to_us: int) -> Sequence[RowT]:
        """The rows from one time to another, both included."""
        return self._rows[
            self._forgotten + self.first_index_from(from_us) : self._forgotten + self.first_index_from(to_us + 1)
        ]

    def forget_oldest(self, count: int) -> None:
        """Forget so many of the oldest."""
        self._forgotten += count
        if self._forgotten * 2 >= len(self._rows):
            del self._rows[: self._forgotten]
            self._forgotten = 0


def encode_row(row: JoinRow) -> list[Any]:
    """A row as JSON, which has no word for NaN and the infinities: they are text in a list."""
    values = [[str(value)] if isinstance(value, float) and not isfinite(value) else value for value in row.values]
    return [row.time_us, row.arrival_us, row.id, values]


def decode_row(encoded: Sequence[Any]) -> tuple[int, int, Scalar, list[Any]]:
    """The fields of a row that was written."""
    time_us, arrival_us, row_id, values = encoded
    return time_us, arrival_us, row_id, [float(value[0]) if isinstance(value, list) else value for value in values]
