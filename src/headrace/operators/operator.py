"""An operator keeps something for each key, takes events, and makes others; time passes by a clock it is told.

    events of a key, as they arrive      ──take──▶ ┌───────┐ ──▶ what it makes of them at once
    the clock: all that arrived before   ──wake──▶ │ kept  │ ──▶ what only time can tell: a window closes, nobody came
    this is here                                   └───────┘

Nothing else moves it: not the time it is, not the order in which partitions happen to be read. So the same events and
the same clocks make the same, in a test, in Spark, and again after a crash.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.aggregates.partial import Scalar

Key = tuple[Scalar, ...]


class InputEvent(NamedTuple):
    """An event as an operator takes it: from which input, its id, when it happened and arrived, its place, its values.

    Times are in microseconds, also among the values. Events of one key are taken in the order of `order`.
    """

    input_index: int
    id: Scalar
    time_us: int
    arrival_us: int
    partition: int
    offset: int
    values: Mapping[str, Any]

    @property
    def sort_key(self) -> tuple[int, int, int, int]:
        return self.arrival_us, self.input_index, self.partition, self.offset

    @property
    def lateness_us(self) -> int:
        return self.arrival_us - self.time_us


class OutputEvent(NamedTuple):
    """An event that an operator makes: for which of its outputs, its id, when it happened and was known, what it says.

    The same input makes the same id again: whoever reads it twice, after a crash, keeps one.
    """

    output: str
    id: str
    time_us: int
    known_us: int
    values: dict[str, Any]


OperatorState = TypeVar("OperatorState")


class Operator(Protocol[OperatorState]):
    """What a window, a pattern or a join is to whatever runs it."""

    def create_state(self) -> OperatorState:
        """What is kept for a key nothing is known of."""
        ...

    def process_event(self, key: Key, state: OperatorState, event: InputEvent) -> Iterator[OutputEvent]:
        """Take an event of a key; what is kept is changed in place."""
        ...

    def next_timer_us(self, state: OperatorState) -> int | None:
        """The clock at which to be woken next; None: nothing is worth keeping, and the key is forgotten."""
        ...

    def on_timer(self, key: Key, state: OperatorState, timer_us: int) -> Iterator[OutputEvent]:
        """It is as late as was asked for; `at_us` is that time, however much later the clock says it is."""
        ...

    def encode_state(self, state: OperatorState) -> bytes:
        """What is kept, as JSON."""
        ...

    def decode_state(self, encoded: bytes) -> OperatorState:
        """What was kept."""
        ...


def advance_operator(
    operator: Operator[OperatorState], key: Key, state: OperatorState, events: Iterable[InputEvent], clock_us: int
) -> Iterator[OutputEvent]:
    """Take the events of a key, then let time pass: everything that arrived before the clock has been taken."""
    for event in sorted(events, key=lambda event: event.sort_key):
        yield from operator.process_event(key, state, event)
    while (timer_us := operator.next_timer_us(state)) is not None and timer_us <= clock_us:
        yield from operator.on_timer(key, state, timer_us)
        if operator.next_timer_us(state) == timer_us:
            raise AssertionError(f"{type(operator).__name__} was woken at {timer_us} and wants to be woken then again")
