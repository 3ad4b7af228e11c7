"""Deduplication for readers of a topic that a sink writes.

headrace.topic, headrace.partition, headrace.offset     headers of the record: the source of the row

    0: 5   0: 9   1: 3   0: 5   0: 9   0: 12            one partition, written by a sink that was killed
    ✓      ✓      ✓      ·      ·      ✓                an offset not above the last one is a duplicate

A sink writes without gaps and in order, so an offset that is not above the last one was read before.
"""

from collections.abc import Iterable

from headrace.kafka.headers import OFFSET_HEADER, PARTITION_HEADER, TOPIC_HEADER

SourceKey = tuple[int, bytes, bytes]


class SinkTopicDeduplicator:
    """Recognizes duplicate records; `last_offsets` has to be stored with the results of processing the records.

    >>> deduplicator = SinkTopicDeduplicator()
    >>> def headers(offset):
    ...     return [TOPIC_HEADER.write("payments.clean"), PARTITION_HEADER.write(0), OFFSET_HEADER.write(offset)]
    >>> [deduplicator.is_new(2, headers(offset)) for offset in (5, 9, 5, 9, 12)]
    [True, True, False, False, True]
    """

    def __init__(self, last_offsets: dict[SourceKey, int] | None = None) -> None:
        self.last_offsets = {} if last_offsets is None else last_offsets

    def is_new(self, partition: int, headers: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a record with these headers is the first of its row in this partition."""
        header_values = dict(headers)
        source_key = partition, header_values[TOPIC_HEADER.name], header_values[PARTITION_HEADER.name]
        offset = int(header_values[OFFSET_HEADER.name])
        if offset <= self.last_offsets.get(source_key, -1):
            return False
        self.last_offsets[source_key] = offset
        return True
