"""What windowed streams keep of the values of one aggregate: added one by one or merged, in any order, alike.

They say what the tiles say of the same events: NaN is the greatest number, integers are summed exactly, ties of first
and last go by the id. Where tiles round at every merge, these do not round at all.
"""

from typing import Any, Protocol, Self

from headrace.aggregates.partial import Scalar


class Accumulator(Protocol):
    """What is kept of one aggregate; only values that are there are added."""

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None: ...

    def merge(self, other: Self) -> None:
        """Take over what another has, of other events."""
        ...

    def result(self) -> Any:
        """What the user asked for; times in microseconds."""
        ...

    def encode_state(self) -> Any:
        """What is kept, in values that JSON has."""
        ...

    def restore_state(self, encoded: Any) -> None:
        """Be what was kept."""
        ...
