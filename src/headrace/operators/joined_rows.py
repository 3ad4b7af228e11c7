"""What joins have in common: what there is to do and when, and the events they make of their rows."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from headrace.declare.join_inputs import KIND, RETRACTS, STREAM
from headrace.declare.joined import AsofJoin, Join
from headrace.operators.operator import Arrived, Key, Made
from headrace.operators.timeline import Place, Row

LEFT, RIGHT = 0, 1


class Due(NamedTuple):
    """A look at a row of one side when the clock says so; a heap of these is what a join has to do, in its order."""

    at_us: int
    source: int
    place: Place


class Outputs:
    """Makes the events of a join of its rows; where one side is missing its columns are null."""

    def __init__(self, what: Join | AsofJoin) -> None:
        self._sides, self._keys, self._then = (what.left, what.right), what.keys, what.then
        self._columns = [[column for column, _ in side.columns] for side in self._sides]
        self._names = [[output for _, output in side.columns] for side in self._sides]
        self._nothing: dict[str, Any] = dict.fromkeys(output for names in self._names for output in names)
        self._retracts: dict[str, Any] = {KIND: "result", RETRACTS: None} if what.retracts else {}

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
        return row._replace(id=own_id, known_us=known_us, values=row.values | {KIND: "retraction", RETRACTS: row.id})

    def late(self, key: Key, event: Arrived) -> Iterable[Made]:
        """What becomes of an event that came too late: a row of its own, or nothing where such are dropped."""
        row = Row(event.time_us, event.arrival_us, event.id, self.values_of(event))
        return self.put_aside(key, event.source, *((row, None) if event.source == LEFT else (None, row)))

    def put_aside(self, key: Key, source: int, left: Row | None, right: Row | None) -> Iterable[Made]:
        """A row that came too late because of one of its events."""
        if self._then == "drop":
            return ()
        made = self.row(key, left, right, max(row.arrival_us for row in (left, right) if row is not None))
        values = {name: value for name, value in made.values.items() if name not in (KIND, RETRACTS)}
        return (made._replace(output="late", values=values | {STREAM: self._sides[source].name}),)

    def _values(self, key: Key, left: Row | None, right: Row | None) -> dict[str, Any]:
        values = dict(self._nothing)
        for names, row in zip(self._names, (left, right), strict=True):
            if row is not None:
                values.update(zip(names, row.values, strict=False))  # a column that was added later is null
        values.update(zip(self._keys, key, strict=True))
        return values


def joined_id(left: Row | None, right: Row | None) -> str:
    """The id of a row: the ids of its events, null where there is none."""
    return orjson.dumps([row and row.id for row in (left, right)]).decode()


def read_due(written: Sequence[Any]) -> Due:
    """What was to be looked at, and when."""
    at_us, source, (time_us, arrival_us, own_id) = written
    return Due(at_us, source, (time_us, arrival_us, own_id))
