"""The operator interface: state for each key, input events, output events, and a clock that is passed in.

    events of a key, as they arrive      ──process──▶ ┌───────┐ ──▶ immediate outputs
    the clock: all that arrived before   ──timer────▶ │ state │ ──▶ outputs that only time decides: a window closes,
    this is here                                      └───────┘     no partner came

Nothing else has an effect: not the current time, not the order in which partitions are read. So the same events and
the same clocks give the same outputs, in a test, in Spark, and again after a crash.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.aggregates.partial import Scalar

Key = tuple[Scalar, ...]


class InputEvent(NamedTuple):
    """An input event: its input, id, event time, arrival, position and values.

    Times are in microseconds, also among the values. Events of one key are processed in the order of `sort_key`.
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
    """An output event: its output, id, time, known-at time and values.

    The same input gives the same id: a reader deduplicates by it after a crash.
    """

    output: str
    id: str
    time_us: int
    known_us: int
    values: dict[str, Any]


OperatorState = TypeVar("OperatorState")


class Operator(Protocol[OperatorState]):
    """The interface between a window, a pattern or a join and the engine that runs it."""

    def create_state(self) -> OperatorState:
        """The state of a new key."""
        ...

    def process_event(self, key: Key, state: OperatorState, event: InputEvent) -> Iterator[OutputEvent]:
        """Process an event of a key; the state changes in place."""
        ...

    def next_timer_us(self, state: OperatorState) -> int | None:
        """The clock of the next timer; None: the state is empty, and the key is removed."""
        ...

    def on_timer(self, key: Key, state: OperatorState, timer_us: int) -> Iterator[OutputEvent]:
        """Run the timer that is due; `timer_us` is its time, however much later the clock is."""
        ...

    def encode_state(self, state: OperatorState) -> bytes:
        """The state as JSON."""
        ...

    def decode_state(self, encoded: bytes) -> OperatorState:
        """Decode a state."""
        ...


def advance_operator(
    operator: Operator[OperatorState], key: Key, state: OperatorState, events: Iterable[InputEvent], clock_us: int
) -> Iterator[OutputEvent]:
    """Process the events of a key, then advance its clock: everything that arrived before the clock has been read."""
    for event in sorted(events, key=lambda event: event.sort_key):
        yield from operator.process_event(key, state, event)
    while (timer_us := operator.next_timer_us(state)) is not None and timer_us <= clock_us:
        yield from operator.on_timer(key, state, timer_us)
        if operator.next_timer_us(state) == timer_us:
            raise AssertionError(
                f"{type(operator).__name__} ran its timer at {timer_us} and requests the same time again"
            )
