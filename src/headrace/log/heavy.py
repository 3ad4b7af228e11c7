"""The keys of a stream's clean records, counted as they come: by its own key, and by what else views group by."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import orjson

from headrace.declare.stream import Stream
from headrace.log.records import Record
from headrace.tiles.frequent import LONGEST_TEXT, key_text
from headrace.tiles.heavy import HALF_US, RecentKeys

Columns = tuple[str, ...]
MOST_PLACES = 10_000


class StreamKeys:
    """Counts the keys of one stream; of records from before the window only that they were."""

    def __init__(self, stream: Stream, grouped_by: Iterable[Columns] = ()) -> None:
        self._stream = stream
        self.recent = {columns: RecentKeys() for columns in ((stream.key,), *grouped_by)}
        self._others = [columns for columns in self.recent if columns != (stream.key,)]
        self._places: dict[str, int] = {}

    def take(self, records: Sequence[Record]) -> None:
        """Count clean records, in the order they come in."""
        recent_us = time.time_ns() // 1000 - 2 * HALF_US
        for half, of_half in groupby(records, lambda record: record.appended_us // HALF_US):
            held = list(of_half)
            is_recent = (half + 1) * HALF_US > recent_us
            self._count(held if is_recent else [], held[0].appended_us)

    def partition_of(self, key: str) -> int | None:
        """Where a key was last seen; one that comes often always has been lately."""
        return self._places.get(key)

    def _count(self, records: Sequence[Record], at_us: int) -> None:
        events = [_event(record) for record in records] if self._others else []
        for columns in self._others:
            texts = [text for event in events if (text := _text(event, columns)) is not None]
            self.recent[columns].add(Counter(texts), at_us)
        keys = [self._key(record) for record in records]
        self.recent[self._stream.key,].add(Counter(keys), at_us)
        if len(self._places) > MOST_PLACES:
            self._places.clear()
        self._places.update(zip(keys, (record.partition for record in records), strict=True))

    def _key(self, record: Record) -> str:
        """The key as its producer wrote it; where he wrote none, the column's."""
        if record.key is None:
            key = _text(_event(record), (self._stream.key,)) or ""
        else:
            key = record.key.decode(errors="backslashreplace")
        return key[:LONGEST_TEXT]


def _event(record: Record) -> dict[str, Any]:
    """A clean event's fields as they are written."""
    try:
        read = orjson.loads(record.value or b"{}")
    except ValueError:  # Spark's reader takes a little more for JSON
        return {}
    return read if isinstance(read, dict) else {}


def _text(event: dict[str, Any], columns: Columns) -> str | None:
    """An entity as text: its value or, of several, a list of them; None where one is null, for it is in no tile."""
    if len(columns) == 1:
        value = event.get(columns[0])
        return value if value is None else key_text(value)
    values = [event.get(name) for name in columns]
    return None if None in values else orjson.dumps(values).decode()
