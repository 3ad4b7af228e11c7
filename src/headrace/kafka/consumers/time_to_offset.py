"""An index from arrival time to offset."""

from bisect import bisect_right

RESOLUTION_US = 50_000
MAX_ENTRIES = 2000


class TimeToOffsetIndex:
    """Arrival times and their offsets, to some 50 ms; the newest is exact.

    >>> marks = TimeToOffsetIndex()
    >>> for offset, arrival_us in enumerate([100_000, 180_000, 200_000, 210_000]):
    ...     marks.add(arrival_us, offset + 1)
    >>> marks.offset_at(99_999), marks.offset_at(185_000), marks.offset_at(210_000)
    (0, 2, 4)
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []

    def add(self, arrival_us: int, next_offset: int) -> None:
        """Record that an event arrived at this time before this offset; an earlier time counts as the newest one."""
        entries = self._entries
        latest_us = max(arrival_us, entries[-1][0]) if entries else arrival_us
        if len(entries) > 1 and latest_us - entries[-2][0] < RESOLUTION_US:
            entries.pop()
        entries.append((latest_us, next_offset))
        if len(entries) > MAX_ENTRIES:
            self._entries = entries[-1::-2][::-1]  # every second one, the newest included

    def offset_at(self, until_us: int) -> int:
        """The offset before which everything had arrived by that time; 0 where it is unknown."""
        index = bisect_right(self._entries, until_us, key=lambda entry: entry[0])
        return self._entries[index - 1][1] if index else 0
