"""Up to which offset of a partition everything had arrived by a time."""

from bisect import bisect_right

APART_US = 50_000
MOST = 2000


class Marks:
    """Times of arrival and the offsets they were reached at, to some 50 ms; the newest is exact.

    >>> marks = Marks()
    >>> for offset, arrival_us in enumerate([100_000, 180_000, 200_000, 210_000]):
    ...     marks.add(arrival_us, offset + 1)
    >>> marks.reached(99_999), marks.reached(185_000), marks.reached(210_000)
    (0, 2, 4)
    """

    def __init__(self) -> None:
        self._marks: list[tuple[int, int]] = []

    def add(self, arrival_us: int, next_offset: int) -> None:
        """A record that arrived then is before this offset; one of an earlier time came after the others."""
        marks = self._marks
        latest_us = max(arrival_us, marks[-1][0]) if marks else arrival_us
        if len(marks) > 1 and latest_us - marks[-2][0] < APART_US:
            marks.pop()
        marks.append((latest_us, next_offset))
        if len(marks) > MOST:
            self._marks = marks[-1::-2][::-1]  # every other one, the newest included

    def reached(self, until_us: int) -> int:
        """The offset before which everything had arrived by that time; 0 where that is not known."""
        place = bisect_right(self._marks, until_us, key=lambda mark: mark[0])
        return self._marks[place - 1][1] if place else 0
