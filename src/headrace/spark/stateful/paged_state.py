"""What operators keep, many keys in a row of state: asking Spark for a row costs more than the row.

    bucket 7   shelf 0: c1, c9, c12      shelf 1: c4, c7      …      each of about two kilobytes, or of one key

A shelf that is too full makes one more, which takes its part of the keys of the next in turn: linear hashing, in which
only the number of shelves has to be known.
"""

from binascii import crc32
from typing import NamedTuple

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

PAGE_BYTES = 2048
PAGES_STATE = "kept"  # the name of the state, by shelf: key ──▶ when to look at it, and what is kept of it


class KeyStateEntry(NamedTuple):
    """What is kept of a key, and the time for which it is noted."""

    timer_us: int
    encoded_state: str


class PagedState:
    """The keys of a bucket; what is asked for and changed in a call is put back at its end."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._pages = handle.getMapState(PAGES_STATE, "shelf int", "keys binary")
        self._page_count_state = handle.getValueState("shelves", "count int")

    def open(self) -> None:
        """Begin a call: Spark has turned to another bucket."""
        stored_count = self._page_count_state.get()
        self._is_new = stored_count is None
        self._page_count = self._stored_page_count = 1 if stored_count is None else stored_count[0]
        self._loaded_pages: dict[int, dict[str, KeyStateEntry]] = {}
        self._changed_pages: set[int] = set()

    def get(self, key: str) -> KeyStateEntry | None:
        return self._load_page(page_number(key, self._page_count)).get(key)

    def put(self, key: str, entry: KeyStateEntry | None) -> None:
        """Keep something of a key, or nothing."""
        number = page_number(key, self._page_count)
        entries = self._load_page(number)
        if entry is not None:
            entries[key] = entry
        elif entries.pop(key, None) is None:
            return
        self._changed_pages.add(number)

    def close(self) -> None:
        """End a call: put back what was changed."""
        for _ in range(sum(_extra_pages(self._loaded_pages[number]) for number in self._changed_pages)):
            self._add_page()
        for number in sorted(self._changed_pages):
            if entries := self._loaded_pages[number]:
                self._pages.updateValue((number,), (orjson.dumps(entries, default=tuple),))
            else:
                self._pages.removeKey((number,))
        if self._changed_pages and (self._is_new or self._page_count != self._stored_page_count):
            self._page_count_state.update((self._page_count,))

    def _load_page(self, number: int) -> dict[str, KeyStateEntry]:
        if number not in self._loaded_pages:
            row = None if self._is_new else self._pages.getValue((number,))
            stored_entries = {} if row is None else orjson.loads(row[0])
            self._loaded_pages[number] = {key: KeyStateEntry(*entry) for key, entry in stored_entries.items()}
        return self._loaded_pages[number]

    def _add_page(self) -> None:
        new_number, self._page_count = self._page_count, self._page_count + 1
        old_number = new_number - _power_of_two_below(new_number)
        entries = self._load_page(old_number)
        moved_entries = {
            key: entries.pop(key) for key in list(entries) if page_number(key, self._page_count) == new_number
        }
        self._loaded_pages[new_number] = moved_entries
        if moved_entries:
            self._changed_pages |= {old_number, new_number}


def page_number(key: str, page_count: int) -> int:
    """The shelf of a key, of so many: all but the last may have been cut in two already."""
    number = crc32(key.encode()) % (2 * _power_of_two_below(page_count))
    return number if number < page_count else number - _power_of_two_below(page_count)


def _power_of_two_below(count: int) -> int:
    """The greatest power of two that is not more.

    >>> [_power_of_two_below(count) for count in (1, 2, 3, 4, 7, 8)]
    [1, 2, 2, 4, 4, 8]
    """
    return 1 << (count.bit_length() - 1)


def _extra_pages(entries: dict[str, KeyStateEntry]) -> int:
    """How many shelves more its keys would fill."""
    total_bytes = sum(len(key) + len(entry.encoded_state) for key, entry in entries.items())
    return min(total_bytes // PAGE_BYTES, len(entries) - 1) if entries else 0
