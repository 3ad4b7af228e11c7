"""The rows of the last so long, in as many hops as a window has: what is looked at, however long it is.

now − window − hop ┤ hops that begin in here, of a minute or of a sixtieth of the window ├ now
"""

from collections.abc import Mapping

from headrace.declare.durations import UNITS_US
from headrace.models.versions.reference_distribution import Segment
from headrace.monitoring.drift.drift_layout import DriftLayout
from headrace.monitoring.drift.drift_tile import DriftTile, merge_tiles

WindowTiles = Mapping[tuple[Segment, ...], DriftTile]  # of each segment all rows of a window

MINUTE_US = UNITS_US["m"]
HOPS_PER_WINDOW = 60


def window_hop_us(window_us: int) -> int:
    """How long a hop is: whole minutes, so that a window has sixty of them at most.

    >>> [window_hop_us(minutes * MINUTE_US) // MINUTE_US for minutes in (1, 60, 61, 1440)]
    [1, 1, 2, 24]
    """
    return -(-window_us // (HOPS_PER_WINDOW * MINUTE_US)) * MINUTE_US


class DriftWindow:
    """Tiles of one version by hop and segment; bounded by the hops of a window, whatever comes."""

    def __init__(self, layout: DriftLayout, window_us: int) -> None:
        self.layout = layout
        self._window_us, self._hop_us = window_us, window_hop_us(window_us)
        self._hops: dict[int, dict[tuple[Segment, ...], DriftTile]] = {}

    def __len__(self) -> int:
        return len(self._hops)

    def add_tile(self, segment: tuple[Segment, ...], minute_us: int, tile: DriftTile) -> None:
        """Some more rows of a minute."""
        tiles = self._hops.setdefault(minute_us - minute_us % self._hop_us, {})
        tiles[segment] = merge_tiles(self.layout, [tiles[segment], tile]) if segment in tiles else tile

    def forget_expired(self, now_us: int) -> None:
        """Let go of what is before the window at a time."""
        self._hops = {start_us: tiles for start_us, tiles in self._hops.items() if self._start_us(now_us) < start_us}

    def tiles_at(self, now_us: int) -> WindowTiles:
        """By segment all rows of the window at a time; of a segment without rows nothing."""
        hops_inside = [tiles for start_us, tiles in self._hops.items() if self._start_us(now_us) < start_us <= now_us]
        return {
            segment: merge_tiles(self.layout, segment_tiles)
            for segment in self.layout.segments
            if (segment_tiles := [tiles[segment] for tiles in hops_inside if segment in tiles])
        }

    def _start_us(self, now_us: int) -> int:
        return now_us - self._window_us - self._hop_us
