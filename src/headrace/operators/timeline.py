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

from headrace.tiles.tile import Scalar

Place = tuple[int, int, Scalar]  # when a row happened and arrived, and its id: of two at one time the later to come


@dataclass(slots=True)
class Row:
    """An event as a join keeps it: its values are those of its side's columns, in their order."""

    time_us: int
    arrival_us: int
    id: Scalar
    values: list[Any]

    @property
    def place(self) -> Place:
        return self.time_us, self.arrival_us, self.id


OfRow = TypeVar("OfRow", bound=Row)
_TIME, _PLACE = attrgetter("time_us"), attrgetter("place")


class Timeline(Generic[OfRow]):
    """Rows by their places. Those forgotten leave a gap at the front, closed when it is half of all: moves are few."""

    def __init__(self, rows: Iterable[OfRow] = ()) -> None:
        self._rows, self._gone = list(rows), 0

    def __len__(self) -> int:
        return len(self._rows) - self._gone

    def __iter__(self) -> Iterator[OfRow]:
        return iter(self._rows[self._gone :])

    def __getitem__(self, number: int) -> OfRow:
        """The row of a number, the oldest is 0."""
        return self._rows[self._gone + number]

    def put(self, row: OfRow) -> None:
        insort(self._rows, row, lo=self._gone, key=_PLACE)

    def at(self, place: Place) -> OfRow:
        """The row of a place, which is known to be there."""
        return self._rows[bisect_left(self._rows, place, lo=self._gone, key=_PLACE)]

    def first_from(self, time_us: int) -> int:
        """The number of the first row from a time on, or the one it would have."""
        return bisect_left(self._rows, time_us, lo=self._gone, key=_TIME) - self._gone

    def between(self, from_us: int, to_us: int) -> Sequence[OfRow]:
        """The rows from one time to another, both included."""
        return self._rows[self._gone + self.first_from(from_us) : self._gone + self.first_from(to_us + 1)]

    def forget(self, count: int) -> None:
        """Forget so many of the oldest."""
        self._gone += count
        if self._gone * 2 >= len(self._rows):
            del self._rows[: self._gone]
            self._gone = 0


def written(row: Row) -> list[Any]:
    """A row as JSON, which has no word for NaN and the infinities: they are text in a list."""
    values = [[str(one)] if isinstance(one, float) and not isfinite(one) else one for one in row.values]
    return [row.time_us, row.arrival_us, row.id, values]


def read(written: Sequence[Any]) -> tuple[int, int, Scalar, list[Any]]:
    """The fields of a row that was written."""
    time_us, arrival_us, own_id, values = written
    return time_us, arrival_us, own_id, [float(one[0]) if isinstance(one, list) else one for one in values]
