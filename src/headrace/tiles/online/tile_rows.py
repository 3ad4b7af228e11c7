"""The tiles of one entity and one hop, as the in-memory store keeps them."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from threading import Lock

from headrace.aggregates.partial import INT64_MAX, StoredObject
from headrace.tiles.layout import ARRIVAL, EVENT_COUNT, HopLayout
from headrace.tiles.tile import FeatureTile

_FIELD_BYTES = 8
_START_AND_N = struct.Struct("<2q")
_HEAD = struct.Struct("<4q")

# One lock for all rows: it is held for about a microsecond, and a lock for each entity would cost more memory.
_LOCK = Lock()


class TileRows:
    """Rows side by side in one buffer, sorted by start; their objects, if the layout has any, in a list.

    Applying and reading may run in different threads: a reader takes a copy, so that it sees whole rows.
    """

    __slots__ = ("buffer", "layout", "objects", "row_bytes")

    def __init__(self, layout: HopLayout) -> None:
        self.layout = layout
        self.row_bytes = layout.row_struct.size
        self.buffer = bytearray()
        self.objects: list[tuple[StoredObject | None, ...]] | None = [] if layout.object_names else None

    def __len__(self) -> int:
        return len(self.buffer) // self.row_bytes

    def apply(self, tile: FeatureTile) -> int:
        """Apply a tile unless there is one with at least as many events: any order and any replay give the same result.

        Returns the number of events by which the rows have grown.
        """
        start_us, n = _START_AND_N.unpack_from(tile.row)
        with _LOCK:
            index = bisect_left(self._starts(), start_us)
            stored_n = self._event_count(index, start_us)
            if n > stored_n:
                self._insert(index, 1 if stored_n else 0, tile)
            return max(0, int(n) - stored_n)

    def expire(self, before_us: int) -> int:
        """Remove the tiles that start before a time; returns their number."""
        with _LOCK:
            expired = bisect_left(self._starts(), before_us)
            del self.buffer[: expired * self.row_bytes]
            if self.objects is not None:
                del self.objects[:expired]
            return expired

    def rows_between(self, after_us: int, until_us: int) -> tuple[bytearray, list[tuple[StoredObject | None, ...]]]:
        """A copy of the rows, and their objects, that start in (after, until]."""
        row_bytes = self.row_bytes
        with _LOCK, self._starts() as starts:
            low, high = bisect_right(starts, after_us), bisect_right(starts, until_us)
            return self.buffer[low * row_bytes : high * row_bytes], self.objects[low:high] if self.objects else []

    def newest_times(self, after_us: int, until_us: int) -> tuple[int, int] | None:
        """Greatest event and arrival time of the last row that starts in (after, until]."""
        with _LOCK:
            index = bisect_right(self._starts(), until_us) - 1
            if index < 0:
                return None
            start_us, _, event_time_us, arrival_us = _HEAD.unpack_from(self.buffer, index * self.row_bytes)
        return (event_time_us, arrival_us) if start_us > after_us else None

    def is_applied(self, start_us: int, arrival_us: int) -> bool:
        """Whether the tile of that start includes an event that arrived then or later."""
        with _LOCK:
            index = bisect_left(self._starts(), start_us)
            if index == len(self):
                return False
            stored_start_us, _, _, stored_arrival_us = _HEAD.unpack_from(self.buffer, index * self.row_bytes)
        return bool(stored_start_us == start_us and stored_arrival_us >= arrival_us)

    def summarize_events(self, after_us: int, until_us: int) -> tuple[int, int]:
        """The number of events in the rows that start in (after, until], and the arrival of the last one."""
        width = self.row_bytes // _FIELD_BYTES
        with _LOCK, memoryview(self.buffer).cast("q") as fields, fields[::width] as starts:
            low, high = bisect_right(starts, after_us), bisect_right(starts, until_us)
            if low == high:
                return 0, 0
            first, end = low * width, high * width
            return sum(fields[first + EVENT_COUNT : end : width].tolist()), max(
                fields[first + ARRIVAL : end : width].tolist()
            )

    def unchanged_until(self, at_us: int, lookbacks_us: Sequence[int]) -> int:
        """Until when windows of these lengths hold the same tiles as at a time, if no tile arrives meanwhile.

        A window changes when its oldest tile expires, and when time reaches a tile that starts later.
        """
        with _LOCK, self._starts() as starts:
            next_index = bisect_right(starts, at_us)
            changes_us = [starts[next_index]] if next_index < len(starts) else []
            for lookback_us in lookbacks_us:
                oldest = bisect_right(starts, at_us - lookback_us, hi=next_index)
                if oldest < next_index:
                    changes_us.append(starts[oldest] + lookback_us)
        return min(changes_us, default=INT64_MAX)

    def _event_count(self, index: int, start_us: int) -> int:
        """The number of events of the tile of that start, which is at this index or absent."""
        if index == len(self):
            return 0
        stored_start_us, n = _START_AND_N.unpack_from(self.buffer, index * self.row_bytes)
        return int(n) if stored_start_us == start_us else 0

    def _insert(self, index: int, replaced: int, tile: FeatureTile) -> None:
        row_bytes = len(tile.row)
        self.buffer[index * row_bytes : (index + replaced) * row_bytes] = tile.row
        if self.objects is not None:
            self.objects[index : index + replaced] = (tile.objects,)

    def _starts(self) -> memoryview:
        """A view of the first field of every row; while it is held, the number of rows cannot change."""
        return memoryview(self.buffer).cast("q")[:: self.row_bytes // _FIELD_BYTES]
