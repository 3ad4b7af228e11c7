"""Sources of the values that alerts watch."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.declare.alerts.alert import WatchedValue


class ValueReading(NamedTuple):
    """A value of this moment, and its description."""

    value: float
    text: str


class ValueSource(Protocol):
    """A source of values: refreshed once for each evaluation, then read for each alert."""

    def refresh(self, now_us: int) -> None:
        """Apply what is new."""

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        """The value as of the last refresh; None where this source has none."""


class CombinedValues:
    """Several sources: the first that has a value answers."""

    def __init__(self, sources: Sequence[ValueSource]) -> None:
        self._sources = tuple(sources)

    def refresh(self, now_us: int) -> None:
        for source in self._sources:
            source.refresh(now_us)

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        readings = (source.read(watched, now_us) for source in self._sources)
        return next((reading for reading in readings if reading is not None), None)
