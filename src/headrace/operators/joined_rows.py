"""What joins share: the rows they keep, in the order of their times, and the events they make of them."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter
from typing import Any, TypeVar

import orjson

from headrace.declare.join_inputs import RETRACTS, STREAM
from headrace.declare.joined import AsofJoin, Join
from headrace.operators.operator import Arrived, Key, Made
from headrace.tiles.tile import Scalar

LEFT, RIGHT = 0, 1
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
_TIME = attrgetter("time_us")
_PLACE = attrgetter("place")


def put(rows: list[OfRow], row: OfRow) -> None:
    """Put a row where it stands by time."""
    insort(rows, row, key=_PLACE)


def first_from(rows: Sequence[Row], time_us: int) -> int:
    """Where the first row from a time on stands, or would."""
    return bisect_left(rows, time_us, key=_TIME)


def between(rows: Sequence[OfRow], from_us: int, to_us: int) -> Sequence[OfRow]:
    """The rows from one time to another, both included."""
    return rows[first_from(rows, from_us) : first_from(rows, to_us + 1)]


def found(rows: Sequence[OfRow], place: Place) -> int:
    """Where the row of a place stands, or would."""
    return bisect_left(rows, place, key=_PLACE)


def forget_before(rows: list[OfRow], from_us: int) -> None:
    """Forget the rows that are older than a time."""
    del rows[: first_from(rows, from_us)]


class Outputs:
    """Makes the events of a join of its rows; where one side is missing its columns are null."""

    def __init__(self, what: Join | AsofJoin) -> None:
        self._sides, self._keys, self._then = (what.left, what.right), what.keys, what.then
        self._columns = [[column for column, _ in side.columns] for side in self._sides]
        self._names = [[output for _, output in side.columns] for side in self._sides]
        self._nothing: dict[str, Any] = dict.fromkeys(output for names in self._names for output in names)
        self._retracts: dict[str, Any] = {RETRACTS: None} if what.retracts else {}

    def values_of(self, event: Arrived) -> list[Any]:
        """What a join keeps of an event."""
        return [event.values[column] for column in self._columns[event.source]]

    def row(self, key: Key, left: Row | None, right: Row | None, known_us: int) -> Made:
        """A row of a left and a right event, or of one of them."""
        time_us = max(row.time_us for row in (left, right) if row is not None)
        values = self._values(key, left, right) | self._retracts
        return Made("out", joined_id(left, right), time_us, known_us, values)

    def retraction(self, row: Made, known_us: int) -> Made:
        """What takes a row back: the same, and which one it is."""
        own_id = orjson.dumps([*orjson.loads(row.id), "retracted"]).decode()
        return row._replace(id=own_id, known_us=known_us, values=row.values | {RETRACTS: row.id})

    def late(self, key: Key, event: Arrived) -> Iterable[Made]:
        """What becomes of an event that came too late: a row of its own, or nothing where such are dropped."""
        row = Row(event.time_us, event.arrival_us, event.id, self.values_of(event))
        return self.put_aside(key, event.source, *((row, None) if event.source == LEFT else (None, row)))

    def put_aside(self, key: Key, source: int, left: Row | None, right: Row | None) -> Iterable[Made]:
        """A row that came too late because of one of its events."""
        if self._then == "drop":
            return ()
        made = self.row(key, left, right, max(row.arrival_us for row in (left, right) if row is not None))
        values = {name: value for name, value in made.values.items() if name != RETRACTS}
        return (made._replace(output="late", values=values | {STREAM: self._sides[source].name}),)

    def _values(self, key: Key, left: Row | None, right: Row | None) -> dict[str, Any]:
        values = dict(self._nothing)
        for names, row in zip(self._names, (left, right), strict=True):
            if row is not None:
                values.update(zip(names, row.values, strict=True))
        values.update(zip(self._keys, key, strict=True))
        return values


def joined_id(left: Row | None, right: Row | None) -> str:
    """The id of a row: the ids of its events, null where there is none."""
    return orjson.dumps([row and row.id for row in (left, right)]).decode()


def written(row: Row) -> list[Any]:
    """A row as JSON, which has no word for NaN and the infinities: they are text in a list."""
    values = [[str(one)] if isinstance(one, float) and not isfinite(one) else one for one in row.values]
    return [row.time_us, row.arrival_us, row.id, values]


def read(written: Sequence[Any]) -> tuple[int, int, Scalar, list[Any]]:
    """The fields of a row that was written."""
    time_us, arrival_us, own_id, values = written
    return time_us, arrival_us, own_id, [float(one[0]) if isinstance(one, list) else one for one in values]
