"""Accumulators of windowed streams: the state of one aggregate; the order of adds and merges does not matter.

They give the results of tiles for the same events: NaN is the greatest number, integers are summed exactly, ties of
first and last are broken by id. Tiles round at every merge; accumulators do not round.
"""

from typing import Any, Protocol, Self

from headrace.aggregates.partial import Scalar


class Accumulator(Protocol):
    """The state of one aggregate; only values that are not null are added."""

    def add(self, value: Any, time_us: int, event_id: Scalar) -> None: ...

    def merge(self, other: Self) -> None:
        """Merge the state of another accumulator, of other events."""
        ...

    def result(self) -> Any:
        """The result of the aggregate; times in microseconds."""
        ...

    def encode_state(self) -> Any:
        """The state as JSON values."""
        ...

    def restore_state(self, encoded: Any) -> None:
        """Restore an encoded state."""
        ...
