"""What operators keep, many keys in a row of state: asking Spark for a row costs more than the row.

    bucket 7   shelf 0: c1, c9, c12      shelf 1: c4, c7      …      each of about two kilobytes, or of one key

A shelf that is too full makes one more, which takes its part of the keys of the next in turn: linear hashing, in which
only the number of shelves has to be known.
"""

from binascii import crc32
from typing import NamedTuple

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

FULL = 2048
ROWS = "kept"  # the name of the state, by shelf: key ──▶ when to look at it, and what is kept of it


class OnShelf(NamedTuple):
    """What is kept of a key, and the time for which it is noted."""

    look_us: int
    packed: str


class Shelves:
    """The keys of a bucket; what is asked for and changed in a call is put back at its end."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._rows = handle.getMapState(ROWS, "shelf int", "keys binary")
        self._size = handle.getValueState("shelves", "count int")

    def open(self) -> None:
        """Begin a call: Spark has turned to another bucket."""
        known = self._size.get()
        self._is_new = known is None
        self._count = self._counted = 1 if known is None else known[0]
        self._taken: dict[int, dict[str, OnShelf]] = {}
        self._changed: set[int] = set()

    def get(self, key: str) -> OnShelf | None:
        return self._take(shelf_of(key, self._count)).get(key)

    def put(self, key: str, kept: OnShelf | None) -> None:
        """Keep something of a key, or nothing."""
        number = shelf_of(key, self._count)
        keys = self._take(number)
        if kept is not None:
            keys[key] = kept
        elif keys.pop(key, None) is None:
            return
        self._changed.add(number)

    def close(self) -> None:
        """End a call: put back what was changed."""
        for _ in range(sum(_surplus(self._taken[number]) for number in self._changed)):
            self._add_shelf()
        for number in sorted(self._changed):
            if keys := self._taken[number]:
                self._rows.updateValue((number,), (orjson.dumps(keys, default=tuple),))
            else:
                self._rows.removeKey((number,))
        if self._changed and (self._is_new or self._count != self._counted):
            self._size.update((self._count,))

    def _take(self, number: int) -> dict[str, OnShelf]:
        if number not in self._taken:
            row = None if self._is_new else self._rows.getValue((number,))
            read = {} if row is None else orjson.loads(row[0])
            self._taken[number] = {key: OnShelf(*kept) for key, kept in read.items()}
        return self._taken[number]

    def _add_shelf(self) -> None:
        new, self._count = self._count, self._count + 1
        old = new - _whole(new)
        keys = self._take(old)
        moved = {key: keys.pop(key) for key in list(keys) if shelf_of(key, self._count) == new}
        self._taken[new] = moved
        if moved:
            self._changed |= {old, new}


def shelf_of(key: str, count: int) -> int:
    """The shelf of a key, of so many: all but the last may have been cut in two already."""
    number = crc32(key.encode()) % (2 * _whole(count))
    return number if number < count else number - _whole(count)


def _whole(count: int) -> int:
    """The greatest power of two that is not more.

    >>> [_whole(count) for count in (1, 2, 3, 4, 7, 8)]
    [1, 2, 2, 4, 4, 8]
    """
    return 1 << (count.bit_length() - 1)


def _surplus(keys: dict[str, OnShelf]) -> int:
    """How many shelves more its keys would fill."""
    size = sum(len(key) + len(kept.packed) for key, kept in keys.items())
    return min(size // FULL, len(keys) - 1) if keys else 0
