"""Two streams joined by key and time: pairs at once, those who stay alone once nobody can come for them any more.

within=("5m", "1h"), payments up to 2m late

                 −5m   order   +1h  +2m
    ─────────────├──────●───────┤────┼──────▶ clock
    payments         ●      ●        │ nobody on time can come any more: a left join says so
                     └ pair └ pair   └ and the order is forgotten (with then="update": once nobody late can)

A pair is made when the second of the two is taken, whichever that is. Whether a row stayed alone is decided by arrival
times alone: its partners that arrived before it was due count, however late they are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import orjson

from headrace.declare.join_inputs import Side
from headrace.declare.joined import Join
from headrace.operators.joined_rows import LEFT, Due, Outputs, read_due
from headrace.operators.operator import Arrived, Key, Made, Operator
from headrace.operators.timeline import Row, Timeline, read, written


@dataclass(slots=True)
class Partnered(Row):
    """A row, when the first of its partners arrived, and whether it was said, and taken back, that none had."""

    answered_us: int | None = None
    told: bool = False
    retracted: bool = False


@dataclass
class Pairs:
    """What is kept of a key: the rows of both sides by time, and when to look at those that may stay alone."""

    rows: tuple[Timeline[Partnered], Timeline[Partnered]] = field(default_factory=lambda: (Timeline(), Timeline()))
    agenda: list[Due] = field(default_factory=list)


class Reach(NamedTuple):
    """How far from a row its partners may be, and when none can come any more: on time, and at all."""

    before_us: int
    after_us: int
    alone_us: int
    over_us: int


def _reach(before_us: int, after_us: int, other: Side) -> Reach:
    return Reach(before_us, after_us, after_us + other.after_us + 1, after_us + other.until_us + 1)


class Joins(Operator[Pairs]):
    """The operator of a `Join`."""

    def __init__(self, what: Join) -> None:
        self._sides = what.left, what.right
        self._outputs = Outputs(what)
        left = _reach(what.before_us, what.after_us, what.right)
        self._reaches = left, _reach(what.after_us, what.before_us, what.left)

    def begin(self) -> Pairs:
        return Pairs()

    def take(self, key: Key, kept: Pairs, event: Arrived) -> Iterator[Made]:
        side = self._sides[event.source]
        if event.lateness_us > side.until_us:
            yield from self._outputs.late(key, event)
            return
        row = Partnered(event.time_us, event.arrival_us, event.id, self._outputs.values_of(event))
        if None not in key:
            yield from self._paired(key, kept, event.source, row)
        elif side.outer:
            yield self._alone(key, event.source, row, row.arrival_us)

    def due_us(self, kept: Pairs) -> int | None:
        dues = [rows[0].time_us + self._reaches[source].over_us for source, rows in enumerate(kept.rows) if rows]
        return min([*dues, *(due.at_us for due in kept.agenda[:1])], default=None)

    def wake(self, key: Key, kept: Pairs, at_us: int) -> Iterator[Made]:
        while kept.agenda and kept.agenda[0].at_us <= at_us:
            yield from self._looked_at(key, kept, heappop(kept.agenda))
        for rows, reach in zip(kept.rows, self._reaches, strict=True):
            rows.forget(rows.first_from(at_us - reach.over_us + 1))

    def packed(self, kept: Pairs) -> bytes:
        rows = [[[*written(row), row.answered_us, row.told, row.retracted] for row in rows] for rows in kept.rows]
        return orjson.dumps({"rows": rows, "agenda": list(map(tuple, kept.agenda))})

    def unpacked(self, packed: bytes) -> Pairs:
        said = orjson.loads(packed)
        left, right = (Timeline(Partnered(*read(one[:4]), *one[4:]) for one in rows) for rows in said["rows"])
        return Pairs((left, right), list(map(read_due, said["agenda"])))

    def _paired(self, key: Key, kept: Pairs, source: int, row: Partnered) -> Iterator[Made]:
        """Keep a new row, and make its pairs with all that are there."""
        reach = self._reaches[source]
        kept.rows[source].put(row)
        if self._sides[source].outer:
            heappush(kept.agenda, Due(row.time_us + reach.alone_us, source, row.place))
        for other in kept.rows[1 - source].between(row.time_us - reach.before_us, row.time_us + reach.after_us):
            self._answer(kept, source, row, other.arrival_us)
            self._answer(kept, 1 - source, other, row.arrival_us)
            left, right = (row, other) if source == LEFT else (other, row)
            yield self._outputs.row(key, left, right, max(row.arrival_us, other.arrival_us))

    def _answer(self, kept: Pairs, source: int, row: Partnered, arrival_us: int) -> None:
        """Note a row's partner; one that arrived after the row was due to be alone is a reason to look again."""
        if row.answered_us is not None and row.answered_us <= arrival_us:
            return
        row.answered_us = arrival_us
        if self._sides[source].outer and arrival_us >= row.time_us + self._reaches[source].alone_us:
            heappush(kept.agenda, Due(arrival_us + 1, source, row.place))

    def _looked_at(self, key: Key, kept: Pairs, due: Due) -> Iterator[Made]:
        row = kept.rows[due.source].at(due.place)
        alone_us = row.time_us + self._reaches[due.source].alone_us
        alone = self._alone(key, due.source, row, max(alone_us, row.arrival_us))
        if not row.told and (row.answered_us is None or row.answered_us >= alone_us):
            row.told = True
            yield alone
        if row.told and not row.retracted and row.answered_us is not None and row.answered_us < due.at_us:
            row.retracted = True
            yield self._outputs.retraction(alone, max(row.answered_us, row.arrival_us))

    def _alone(self, key: Key, source: int, row: Row, known_us: int) -> Made:
        left, right = (row, None) if source == LEFT else (None, row)
        return self._outputs.row(key, left, right, known_us)
