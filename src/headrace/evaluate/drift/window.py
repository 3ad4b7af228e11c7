"""The rows of the last so long, in as many hops as a window has: what is looked at, however long it is.

now − window − hop ┤ hops that begin in here, of a minute or of a sixtieth of the window ├ now
"""

from collections.abc import Mapping

from headrace.declare.durations import UNITS_US
from headrace.evaluate.drift.layout import Layout
from headrace.evaluate.drift.tile import Tile, merged
from headrace.score.reference import Segment

Rows = Mapping[tuple[Segment, ...], Tile]  # of each segment all rows of a window

MINUTE_US = UNITS_US["m"]
HOPS = 60


def hop_of(window_us: int) -> int:
    """How long a hop is: whole minutes, so that a window has sixty of them at most.

    >>> [hop_of(minutes * MINUTE_US) // MINUTE_US for minutes in (1, 60, 61, 1440)]
    [1, 1, 2, 24]
    """
    return -(-window_us // (HOPS * MINUTE_US)) * MINUTE_US


class Window:
    """Tiles of one version by hop and segment; bounded by the hops of a window, whatever comes."""

    def __init__(self, layout: Layout, window_us: int) -> None:
        self.layout = layout
        self._window_us, self._hop_us = window_us, hop_of(window_us)
        self._hops: dict[int, dict[tuple[Segment, ...], Tile]] = {}

    def __len__(self) -> int:
        return len(self._hops)

    def add(self, segment: tuple[Segment, ...], minute_us: int, tile: Tile) -> None:
        """Some more rows of a minute."""
        tiles = self._hops.setdefault(minute_us - minute_us % self._hop_us, {})
        tiles[segment] = merged(self.layout, [tiles[segment], tile]) if segment in tiles else tile

    def forget(self, now_us: int) -> None:
        """Let go of what is before the window at a time."""
        self._hops = {start_us: tiles for start_us, tiles in self._hops.items() if self._after_us(now_us) < start_us}

    def at(self, now_us: int) -> Rows:
        """By segment all rows of the window at a time; of a segment without rows nothing."""
        inside = [tiles for start_us, tiles in self._hops.items() if self._after_us(now_us) < start_us <= now_us]
        return {
            segment: merged(self.layout, found)
            for segment in self.layout.segments
            if (found := [tiles[segment] for tiles in inside if segment in tiles])
        }

    def _after_us(self, now_us: int) -> int:
        return now_us - self._window_us - self._hop_us
