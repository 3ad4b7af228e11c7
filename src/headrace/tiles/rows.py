"""The tiles of one entity and one hop, as the online store keeps them."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from threading import Lock

from headrace.tiles.layout import ARRIVAL, INT64_MAX, HopLayout, N
from headrace.tiles.tile import Stored, Tile

_FIELD_BYTES = 8
_START_AND_N = struct.Struct("<2q")
_HEAD = struct.Struct("<4q")

# One lock for all rows: it is held for about a microsecond, and a lock an entity would cost more memory.
_STEADY = Lock()


class TileRows:
    """Rows side by side in one buffer, sorted by start; their objects, if the layout has any, in a list.

    Applying and reading may run in different threads: a reader takes a copy, so it sees whole rows.
    """

    __slots__ = ("layout", "objects", "rows", "size")

    def __init__(self, layout: HopLayout) -> None:
        self.layout = layout
        self.size = layout.row.size
        self.rows = bytearray()
        self.objects: list[tuple[Stored | None, ...]] | None = [] if layout.objects else None

    def __len__(self) -> int:
        return len(self.rows) // self.size

    def apply(self, tile: Tile) -> int:
        """Take a tile unless one with as many events is here: any order and any replay end the same.

        Gives the number of events by which the rows have grown.
        """
        start_us, n = _START_AND_N.unpack_from(tile.row)
        with _STEADY:
            index = bisect_left(self._starts(), start_us)
            found_n = self._events(index, start_us)
            if n > found_n:
                self._put(index, 1 if found_n else 0, tile)
            return max(0, int(n) - found_n)

    def expire(self, before_us: int) -> int:
        """Let go of the tiles that start before a time; says how many they were."""
        with _STEADY:
            gone = bisect_left(self._starts(), before_us)
            del self.rows[: gone * self.size]
            if self.objects is not None:
                del self.objects[:gone]
            return gone

    def between(self, after_us: int, until_us: int) -> tuple[bytearray, list[tuple[Stored | None, ...]]]:
        """A copy of the rows, and their objects, that start in (after, until]."""
        size = self.size
        with _STEADY, self._starts() as starts:
            low, high = bisect_right(starts, after_us), bisect_right(starts, until_us)
            return self.rows[low * size : high * size], self.objects[low:high] if self.objects else []

    def newest(self, after_us: int, until_us: int) -> tuple[int, int] | None:
        """Greatest event and arrival time of the last row that starts in (after, until]."""
        with _STEADY:
            index = bisect_right(self._starts(), until_us) - 1
            if index < 0:
                return None
            start_us, _, event_time_us, arrival_us = _HEAD.unpack_from(self.rows, index * self.size)
        return (event_time_us, arrival_us) if start_us > after_us else None

    def heard(self, start_us: int, arrival_us: int) -> bool:
        """Whether the tile of that start has taken in an event that arrived then or later."""
        with _STEADY:
            index = bisect_left(self._starts(), start_us)
            if index == len(self):
                return False
            found_us, _, _, heard_us = _HEAD.unpack_from(self.rows, index * self.size)
        return bool(found_us == start_us and heard_us >= arrival_us)

    def known(self, after_us: int, until_us: int) -> tuple[int, int]:
        """How many events the rows that start in (after, until] were folded from, and when the last of them arrived."""
        width = self.size // _FIELD_BYTES
        with _STEADY, memoryview(self.rows).cast("q") as fields, fields[::width] as starts:
            low, high = bisect_right(starts, after_us), bisect_right(starts, until_us)
            if low == high:
                return 0, 0
            first, end = low * width, high * width
            return sum(fields[first + N : end : width].tolist()), max(fields[first + ARRIVAL : end : width].tolist())

    def same_until(self, at_us: int, reaches_us: Sequence[int]) -> int:
        """Until when windows that reach back so far hold the tiles they hold at a time, if no tile comes meanwhile.

        A window changes when its oldest tile is out of reach, and when time comes to a tile that starts later.
        """
        with _STEADY, self._starts() as starts:
            next_one = bisect_right(starts, at_us)
            changes_us = [starts[next_one]] if next_one < len(starts) else []
            for reach_us in reaches_us:
                oldest = bisect_right(starts, at_us - reach_us, hi=next_one)
                if oldest < next_one:
                    changes_us.append(starts[oldest] + reach_us)
        return min(changes_us, default=INT64_MAX)

    def _events(self, index: int, start_us: int) -> int:
        """How many events the tile of that start has, which is at this place or nowhere."""
        if index == len(self):
            return 0
        found_us, n = _START_AND_N.unpack_from(self.rows, index * self.size)
        return int(n) if found_us == start_us else 0

    def _put(self, index: int, replaced: int, tile: Tile) -> None:
        size = len(tile.row)
        self.rows[index * size : (index + replaced) * size] = tile.row
        if self.objects is not None:
            self.objects[index : index + replaced] = (tile.objects,)

    def _starts(self) -> memoryview:
        """The first field of every row, as it stands; while it is held, the rows cannot change their number."""
        return memoryview(self.rows).cast("q")[:: self.size // _FIELD_BYTES]
