"""An operator keeps something for each key, takes events, and makes others; time passes by a clock it is told.

    events of a key, as they arrive      ──take──▶ ┌───────┐ ──▶ what it makes of them at once
    the clock: all that arrived before   ──wake──▶ │ kept  │ ──▶ what only time can tell: a window closes, nobody came
    this is here                                   └───────┘

Nothing else moves it: not the time it is, not the order in which partitions happen to be read. So the same events and
the same clocks make the same, in a test, in Spark, and again after a crash.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.tiles.tile import Scalar

Key = tuple[Scalar, ...]


class Arrived(NamedTuple):
    """An event as an operator takes it: from which input, its id, when it happened and arrived, its place, its values.

    Times are in microseconds, also among the values. Events of one key are taken in the order of `order`.
    """

    source: int
    id: Scalar
    time_us: int
    arrival_us: int
    partition: int
    offset: int
    values: Mapping[str, Any]

    @property
    def order(self) -> tuple[int, int, int, int]:
        return self.arrival_us, self.source, self.partition, self.offset

    @property
    def lateness_us(self) -> int:
        return self.arrival_us - self.time_us


class Made(NamedTuple):
    """An event that an operator makes: for which of its outputs, its id, when it happened and was known, what it says.

    The same input makes the same id again: whoever reads it twice, after a crash, keeps one.
    """

    output: str
    id: str
    time_us: int
    known_us: int
    values: dict[str, Any]


Kept = TypeVar("Kept")


class Operator(Protocol[Kept]):
    """What a window, a pattern or a join is to whatever runs it."""

    def begin(self) -> Kept:
        """What is kept for a key nothing is known of."""
        ...

    def take(self, key: Key, kept: Kept, event: Arrived) -> Iterator[Made]:
        """Take an event of a key; what is kept is changed in place."""
        ...

    def due_us(self, kept: Kept) -> int | None:
        """The clock at which to be woken next; None: nothing is worth keeping, and the key is forgotten."""
        ...

    def wake(self, key: Key, kept: Kept, at_us: int) -> Iterator[Made]:
        """It is as late as was asked for; `at_us` is that time, however much later the clock says it is."""
        ...

    def packed(self, kept: Kept) -> bytes:
        """What is kept, as JSON."""
        ...

    def unpacked(self, packed: bytes) -> Kept:
        """What was kept."""
        ...


def step(operator: Operator[Kept], key: Key, kept: Kept, events: Iterable[Arrived], clock_us: int) -> Iterator[Made]:
    """Take the events of a key, then let time pass: everything that arrived before the clock has been taken."""
    for event in sorted(events, key=lambda event: event.order):
        yield from operator.take(key, kept, event)
    while (due_us := operator.due_us(kept)) is not None and due_us <= clock_us:
        yield from operator.wake(key, kept, due_us)
        if operator.due_us(kept) == due_us:
            raise AssertionError(f"{type(operator).__name__} was woken at {due_us} and wants to be woken then again")
