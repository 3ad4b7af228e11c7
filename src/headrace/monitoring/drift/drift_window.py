"""A sliding window of drift tiles, in a limited number of hops, however long it is.

now − window − hop ┤ hops that start in here, of a minute or of a sixtieth of the window ├ now
"""

from collections.abc import Mapping

from headrace.declare.durations import UNITS_US
from headrace.models.versions.reference_distribution import Segment
from headrace.monitoring.drift.drift_layout import DriftLayout
from headrace.monitoring.drift.drift_tile import DriftTile, merge_tiles

WindowTiles = Mapping[tuple[Segment, ...], DriftTile]  # all rows of a window by segment

MINUTE_US = UNITS_US["m"]
HOPS_PER_WINDOW = 60


def window_hop_us(window_us: int) -> int:
    """The length of a hop: whole minutes, so that a window has at most sixty.

    >>> [window_hop_us(minutes * MINUTE_US) // MINUTE_US for minutes in (1, 60, 61, 1440)]
    [1, 1, 2, 24]
    """
    return -(-window_us // (HOPS_PER_WINDOW * MINUTE_US)) * MINUTE_US


class DriftWindow:
    """Tiles of one version by hop and segment; their number is limited by the hops of a window."""

    def __init__(self, layout: DriftLayout, window_us: int) -> None:
        self.layout = layout
        self._window_us, self._hop_us = window_us, window_hop_us(window_us)
        self._hops: dict[int, dict[tuple[Segment, ...], DriftTile]] = {}

    def __len__(self) -> int:
        return len(self._hops)

    def add_tile(self, segment: tuple[Segment, ...], minute_us: int, tile: DriftTile) -> None:
        """Add rows of a minute."""
        tiles = self._hops.setdefault(minute_us - minute_us % self._hop_us, {})
        tiles[segment] = merge_tiles(self.layout, [tiles[segment], tile]) if segment in tiles else tile

    def forget_expired(self, now_us: int) -> None:
        """Drop hops before the window."""
        self._hops = {start_us: tiles for start_us, tiles in self._hops.items() if self._start_us(now_us) < start_us}

    def tiles_at(self, now_us: int) -> WindowTiles:
        """All rows of the window by segment; segments without rows are left out."""
        hops_inside = [tiles for start_us, tiles in self._hops.items() if self._start_us(now_us) < start_us <= now_us]
        return {
            segment: merge_tiles(self.layout, segment_tiles)
            for segment in self.layout.segments
            if (segment_tiles := [tiles[segment] for tiles in hops_inside if segment in tiles])
        }

    def _start_us(self, now_us: int) -> int:
        return now_us - self._window_us - self._hop_us
