"""Where values come from: whoever knows the value of what an alert watches."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.declare.alert import Watched


class Reading(NamedTuple):
    """A value of this moment, and what it means in words."""

    value: float
    text: str


class Values(Protocol):
    """Knows values; asked at every look, first to look itself, then for each alert."""

    def look(self, now_us: int) -> None:
        """Take in what is new."""

    def read(self, watched: Watched, now_us: int) -> Reading | None:
        """The value as of the last look; None where there is none, or where another knows."""


class Together:
    """Several that know values: the first that has one tells it."""

    def __init__(self, known: Sequence[Values]) -> None:
        self._known = tuple(known)

    def look(self, now_us: int) -> None:
        for one in self._known:
            one.look(now_us)

    def read(self, watched: Watched, now_us: int) -> Reading | None:
        readings = (one.read(watched, now_us) for one in self._known)
        return next((reading for reading in readings if reading is not None), None)
