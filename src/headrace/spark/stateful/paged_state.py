"""Operator state in pages, many keys in a row of Spark's state: reading a row costs more than its content.

    bucket 7   page 0: c1, c9, c12      page 1: c4, c7      …      each of about two kilobytes, or of one key

When a page is too full, one more page is added, which takes its part of the keys of the next page in turn: linear
hashing, which only needs the number of pages.
"""

from binascii import crc32
from typing import NamedTuple

import orjson
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

PAGE_BYTES = 2048
PAGES_STATE = "kept"  # the name of the state, by page: key ──▶ its timer and its state


class KeyStateEntry(NamedTuple):
    """The state of a key, and its registered timer."""

    timer_us: int
    encoded_state: str


class PagedState:
    """The keys of a bucket; changes are written back at the end of a call."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._pages = handle.getMapState(PAGES_STATE, "shelf int", "keys binary")
        self._page_count_state = handle.getValueState("shelves", "count int")

    def open(self) -> None:
        """Start a call: Spark has switched to another bucket."""
        stored_count = self._page_count_state.get()
        self._is_new = stored_count is None
        self._page_count = self._stored_page_count = 1 if stored_count is None else stored_count[0]
        self._loaded_pages: dict[int, dict[str, KeyStateEntry]] = {}
        self._changed_pages: set[int] = set()

    def get(self, key: str) -> KeyStateEntry | None:
        return self._load_page(page_number(key, self._page_count)).get(key)

    def put(self, key: str, entry: KeyStateEntry | None) -> None:
        """Set the state of a key, or remove it."""
        number = page_number(key, self._page_count)
        entries = self._load_page(number)
        if entry is not None:
            entries[key] = entry
        elif entries.pop(key, None) is None:
            return
        self._changed_pages.add(number)

    def close(self) -> None:
        """End a call: write changes back."""
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
    """The page of a key among so many pages: all but the last may have been split already."""
    number = crc32(key.encode()) % (2 * _power_of_two_below(page_count))
    return number if number < page_count else number - _power_of_two_below(page_count)


def _power_of_two_below(count: int) -> int:
    """The greatest power of two that is at most the count.

    >>> [_power_of_two_below(count) for count in (1, 2, 3, 4, 7, 8)]
    [1, 2, 2, 4, 4, 8]
    """
    return 1 << (count.bit_length() - 1)


def _extra_pages(entries: dict[str, KeyStateEntry]) -> int:
    """How many more pages its keys would fill."""
    total_bytes = sum(len(key) + len(entry.encoded_state) for key, entry in entries.items())
    return min(total_bytes // PAGE_BYTES, len(entries) - 1) if entries else 0
