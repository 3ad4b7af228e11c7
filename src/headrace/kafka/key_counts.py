"""Counts the keys of a stream's clean records: its own key, and the entities of its views."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import orjson

from headrace.aggregates.sketches.frequent_items import MAX_TEXT_LENGTH, key_text
from headrace.aggregates.sketches.heavy_hitters import HALF_WINDOW_US, RecentKeyCounts
from headrace.declare.streams.stream import Stream
from headrace.kafka.record import ConsumerRecord

KeyColumns = tuple[str, ...]
MAX_KEYS = 10_000


class StreamKeyCounts:
    """Counts the keys of one stream; records from before the window count only in the total."""

    def __init__(self, stream: Stream, view_columns: Iterable[KeyColumns] = ()) -> None:
        self._stream = stream
        self.recent = {columns: RecentKeyCounts() for columns in ((stream.key,), *view_columns)}
        self._view_columns = [columns for columns in self.recent if columns != (stream.key,)]
        self._last_partitions: dict[str, int] = {}

    def count_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Count clean records, in order of arrival."""
        recent_us = time.time_ns() // 1000 - 2 * HALF_WINDOW_US
        for half, half_records in groupby(records, lambda record: record.appended_us // HALF_WINDOW_US):
            batch = list(half_records)
            is_recent = (half + 1) * HALF_WINDOW_US > recent_us
            self._count_batch(batch if is_recent else [], batch[0].appended_us)

    def last_partition(self, key: str) -> int | None:
        """The partition in which a key was last seen; a frequent one is always recent."""
        return self._last_partitions.get(key)

    def _count_batch(self, records: Sequence[ConsumerRecord], at_us: int) -> None:
        events = [_parse_event(record) for record in records] if self._view_columns else []
        for columns in self._view_columns:
            texts = [text for event in events if (text := _entity_text(event, columns)) is not None]
            self.recent[columns].add_counts(Counter(texts), at_us)
        keys = [self._record_key(record) for record in records]
        self.recent[self._stream.key,].add_counts(Counter(keys), at_us)
        if len(self._last_partitions) > MAX_KEYS:
            self._last_partitions.clear()
        self._last_partitions.update(zip(keys, (record.partition for record in records), strict=True))

    def _record_key(self, record: ConsumerRecord) -> str:
        """The record's key; without one, the value of the key column."""
        if record.key is None:
            key = _entity_text(_parse_event(record), (self._stream.key,)) or ""
        else:
            key = record.key.decode(errors="backslashreplace")
        return key[:MAX_TEXT_LENGTH]


def _parse_event(record: ConsumerRecord) -> dict[str, Any]:
    """A clean event's fields as they are written."""
    try:
        event = orjson.loads(record.value or b"{}")
    except ValueError:  # Spark's reader accepts slightly more than JSON
        return {}
    return event if isinstance(event, dict) else {}


def _entity_text(event: dict[str, Any], columns: KeyColumns) -> str | None:
    """An entity as text: its value or a list of its values; None where one is null, since it is in no tile."""
    if len(columns) == 1:
        value = event.get(columns[0])
        return value if value is None else key_text(value)
    values = [event.get(name) for name in columns]
    return None if None in values else orjson.dumps(values).decode()
