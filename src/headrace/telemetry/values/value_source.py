"""Where values come from: whoever knows the value of what an alert watches."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.declare.alerts.alert import WatchedValue


class ValueReading(NamedTuple):
    """A value of this moment, and what it means in words."""

    value: float
    text: str


class ValueSource(Protocol):
    """Knows values; asked at every look, first to look itself, then for each alert."""

    def refresh(self, now_us: int) -> None:
        """Take in what is new."""

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        """The value as of the last look; None where there is none, or where another knows."""


class CombinedValues:
    """Several that know values: the first that has one tells it."""

    def __init__(self, sources: Sequence[ValueSource]) -> None:
        self._sources = tuple(sources)

    def refresh(self, now_us: int) -> None:
        for source in self._sources:
            source.refresh(now_us)

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        readings = (source.read(watched, now_us) for source in self._sources)
        return next((reading for reading in readings if reading is not None), None)
