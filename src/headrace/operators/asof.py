"""Each left event with what was valid at its time: the last right one at or before it, not older than it may be.

tolerance="10m", quotes up to 2m late

    quotes      ●q1        ●q2                       ●q3          q2 was valid from its time until that of q3
    trades                      ●t                                at most 10m
                                ├─ 2m ─┤
                                       └ no quote on time can come before t any more: t with q2
                                ├ wait ┤ may be shorter: then with what had arrived by then

What had arrived is told by arrival times, not by what happens to be read: the same events make the same rows. A
quote that came after a trade stopped waiting, and would have been the one, takes the row back and makes another with
then="update", and is told in `late` otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import orjson

from headrace.declare.joined import AsofJoin
from headrace.operators.joined_rows import LEFT, RIGHT, Due, Outputs, joined_id, read_due
from headrace.operators.operator import Arrived, Key, Made, Operator
from headrace.operators.timeline import Place, Row, Timeline, read, written


@dataclass(slots=True)
class Decided(Row):
    """A left row and the version it was given, if any: kept while a better one may come."""

    given: Row | None


@dataclass
class Versions:
    """What is kept of a key: left rows that wait, those decided, and the versions of the right by time."""

    waiting: dict[Place, Row] = field(default_factory=dict)
    decided: Timeline[Decided] = field(default_factory=Timeline)
    versions: Timeline[Row] = field(default_factory=Timeline)
    agenda: list[Due] = field(default_factory=list)


class Asof(Operator[Versions]):
    """The operator of an `AsofJoin`."""

    def __init__(self, what: AsofJoin) -> None:
        self._what, self._outputs = what, Outputs(what)
        self._right_columns = [column for column, _ in what.right.columns]
        # Where all is waited for, and what is later does not count, no version comes too late for a row.
        self._corrects = what.then == "update" or (what.then == "side_output" and what.wait_us is not None)
        # The left rows that wait, or may still come, are not older than so much before the clock.
        self._behind_us = max(what.left.until_us, what.right.after_us + 1)

    def begin(self) -> Versions:
        return Versions()

    def take(self, key: Key, kept: Versions, event: Arrived) -> Iterator[Made]:
        side = self._what.left if event.source == LEFT else self._what.right
        row = Row(event.time_us, event.arrival_us, event.id, self._outputs.values_of(event))
        if event.lateness_us > side.until_us:
            yield from self._outputs.late(key, event)
        elif None in key:
            yield from self._row(key, row, None, row.arrival_us) if event.source == LEFT else ()
        elif event.source == LEFT:
            kept.waiting[row.place] = row
            heappush(kept.agenda, Due(self._decided_us(row), LEFT, row.place))
        else:
            kept.versions.put(row)
            if self._corrects:
                heappush(kept.agenda, Due(row.arrival_us + 1, RIGHT, row.place))

    def due_us(self, kept: Versions) -> int | None:
        dues = [due.at_us for due in kept.agenda[:1]]
        dues += [self._final_us(kept.decided[0])] if kept.decided else []
        dues += [self._outlived_us(kept.versions, 0)] if kept.versions else []
        return min(dues, default=None)

    def wake(self, key: Key, kept: Versions, at_us: int) -> Iterator[Made]:
        while kept.agenda and kept.agenda[0].at_us <= at_us:
            due = heappop(kept.agenda)
            if due.source == LEFT:
                yield from self._decide(key, kept, due)
            else:
                yield from self._correct(key, kept, kept.versions.at(due.place))
        kept.decided.forget(kept.decided.first_from(at_us - self._what.right.until_us))
        self._forget_versions(kept.versions, at_us)

    def packed(self, kept: Versions) -> bytes:
        said = {
            "waiting": [written(row) for row in kept.waiting.values()],
            "decided": [[written(row), row.given and written(row.given)] for row in kept.decided],
            "versions": [written(row) for row in kept.versions],
            "agenda": list(map(tuple, kept.agenda)),
        }
        return orjson.dumps(said)

    def unpacked(self, packed: bytes) -> Versions:
        said = orjson.loads(packed)
        return Versions(
            {row.place: row for row in (Row(*read(one)) for one in said["waiting"])},
            Timeline(Decided(*read(one), given and Row(*read(given))) for one, given in said["decided"]),
            Timeline(Row(*read(one)) for one in said["versions"]),
            list(map(read_due, said["agenda"])),
        )

    def _decided_us(self, row: Row) -> int:
        """When a left row is decided: all that is on time has arrived, or it has waited for as long as it may."""
        complete_us = max(row.arrival_us, row.time_us + self._what.right.after_us + 1)
        return complete_us if self._what.wait_us is None else min(complete_us, row.arrival_us + self._what.wait_us)

    def _final_us(self, row: Row) -> int:
        """When no version for a left row can come any more."""
        return row.time_us + self._what.right.until_us + 1

    def _decide(self, key: Key, kept: Versions, due: Due) -> Iterator[Made]:
        row = kept.waiting.pop(due.place)
        version = self._valid(kept.versions, row.time_us, due.at_us)
        if self._corrects and due.at_us < self._final_us(row):
            kept.decided.put(Decided(*row.place, row.values, version))
        yield from self._row(key, row, version, due.at_us)

    def _valid(self, versions: Timeline[Row], time_us: int, known_us: int) -> Row | None:
        """The last version at or before a time that had arrived before another."""
        for number in range(versions.first_from(time_us + 1) - 1, -1, -1):
            if versions[number].time_us < time_us - self._what.tolerance_us:
                return None
            if versions[number].arrival_us < known_us:
                return versions[number]
        return None

    def _correct(self, key: Key, kept: Versions, version: Row) -> Iterator[Made]:
        """See for which decided rows a version would have been the one: none after a row that was given a later one."""
        for number in range(kept.decided.first_from(version.time_us), len(kept.decided)):
            row = kept.decided[number]
            if row.time_us > version.time_us + self._what.tolerance_us:
                return
            if row.given is not None and row.given.place > version.place:
                return
            if row.given is None or row.given.place < version.place:
                yield from self._corrected(key, row, version)
                row.given = version

    def _corrected(self, key: Key, row: Decided, version: Row) -> Iterator[Made]:
        if self._what.then != "update":
            yield from self._outputs.put_aside(key, RIGHT, row, version)
            return
        for made in self._row(key, row, row.given, 0):
            yield self._outputs.retraction(made, version.arrival_us)
        yield from self._row(key, row, version, version.arrival_us)

    def _row(self, key: Key, row: Row, version: Row | None, known_us: int) -> Iterator[Made]:
        """The row of a left event with a version, or with none where that ends what was valid."""
        valid = None if version is None or self._ends(version) else version
        if valid is not None or self._what.left.outer:
            yield self._outputs.row(key, row, valid, known_us)._replace(id=joined_id(row, version))

    def _ends(self, version: Row) -> bool:
        """Whether a version only says that the one before is no longer valid."""
        if self._what.deleted is None:
            return False
        column, said = self._what.deleted
        return version.values[self._right_columns.index(column)] is said

    def _forget_versions(self, versions: Timeline[Row], at_us: int) -> None:
        """Forget the oldest versions that nobody can ask for; the last one of them all only when it is too old."""
        count = 0
        while count < len(versions) and self._outlived_us(versions, count) <= at_us:
            count += 1
        versions.forget(count)

    def _outlived_us(self, versions: Timeline[Row], number: int) -> int:
        """When nobody can ask for a version any more: it is too old, or another has taken its place."""
        version = versions[number]
        outlived_us = version.time_us + self._what.tolerance_us + self._behind_us + 1
        if number + 1 < len(versions):
            later = versions[number + 1]
            outlived_us = min(outlived_us, max(later.time_us + self._behind_us, later.arrival_us + 1))
        return max(outlived_us, version.arrival_us + 1)
