"""What a match under way has taken, and what conditions make of an event after it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.declare.expressions import fields
from headrace.declare.sequence import Sequence
from headrace.operators.conditions import Read, Row, reading
from headrace.operators.nfa import Waiting
from headrace.operators.operator import Arrived
from headrace.tiles.tile import Scalar


class Seen(NamedTuple):
    """What is kept of an event: its time and place, which it is ordered by; its id; what holds for it; some columns."""

    time_us: int
    partition: int
    offset: int
    id: Scalar
    held: int
    values: tuple[Any, ...]

    @property
    def place(self) -> tuple[int, int, int]:
        return self[:3]


class Taken(NamedTuple):
    """An event that a step took, after others: how many each step has now, and what conditions read of them.

    Matches that differ at the end share their beginning.
    """

    event: Seen
    step: int
    before: "Taken | None"
    counts: tuple[int, ...]
    read: tuple[Seen | None, ...]


def events_of(taken: Taken) -> list[Taken]:
    """All that was taken, in its order."""
    found, last = [taken], taken.before
    while last is not None:
        found.append(last)
        last = last.before
    return found[::-1]


@dataclass(slots=True, eq=False)
class Start:
    """The first event of some matches, and whether one of them was told."""

    event: Seen
    is_told: bool = False


@dataclass(slots=True, eq=False)
class Run:
    """A match under way: how it began, what it took, and what it waits for."""

    start: Start
    taken: Taken
    waiting: Waiting


class Taker:
    """Says which conditions hold for an event, and what taking it makes of a match."""

    def __init__(self, sequence: Sequence) -> None:
        self.columns = sequence.columns
        self._references = [(one, self.columns.index(one.column)) for one in sequence.references]
        self._own = list(_conditions(sequence, of_earlier=False))
        self._of_earlier = list(_conditions(sequence, of_earlier=True))
        self.reads_earlier = bool(self._of_earlier)
        self._nothing = (0,) * len(sequence.steps), (None,) * len(self._references)

    def seen(self, event: Arrived) -> Seen:
        """What is kept of an event."""
        held = sum(bit for bit, holds in self._own if holds(event.values))
        values = tuple(event.values[name] for name in self.columns)
        return Seen(event.time_us, event.partition, event.offset, event.id, held, values)

    def held(self, event: Seen, taken: Taken | None, wanted: int) -> int:
        """The conditions that hold for an event after what was taken, as bits; of those that read that, the wanted."""
        if not self.reads_earlier:
            return event.held
        row = self._row(event, self._nothing[1] if taken is None else taken.read)
        return event.held | sum(bit for bit, holds in self._of_earlier if bit & wanted and holds(row))

    def taken(self, event: Seen, step: int, before: Taken | None) -> Taken:
        """An event is taken by a step."""
        counts, read = self._nothing if before is None else (before.counts, before.read)
        counted = (*counts[:step], counts[step] + 1, *counts[step + 1 :])
        return Taken(event, step, before, counted, self._read(read, step, event) if read else read)

    def _read(self, read: tuple[Seen | None, ...], step: int, event: Seen) -> tuple[Seen | None, ...]:
        return tuple(
            event if one.step == step and (before is None or one.which == "last") else before
            for before, (one, _) in zip(read, self._references, strict=True)
        )

    def _row(self, event: Seen, read: tuple[Seen | None, ...]) -> Row:
        row = dict(zip(self.columns, event.values, strict=True))
        for before, (one, column) in zip(read, self._references, strict=True):
            row[one.name] = None if before is None else before.values[column]
        return row


def _conditions(sequence: Sequence, *, of_earlier: bool) -> Iterator[tuple[int, Read]]:
    """The conditions that read what was taken before, or those that do not, each with its bit."""
    own = set(sequence.schema.names)
    for number, tree in enumerate(sequence.conditions):
        if (not fields(tree) <= own) == of_earlier:
            yield 1 << number, reading(tree, sequence.readable)
