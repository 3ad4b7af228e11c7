"""What a reader of a topic that a sink writes has to do to read each row once.

headrace.topic, headrace.partition, headrace.offset     where the sink read the row, as headers of the record

    0: 5   0: 9   1: 3   0: 5   0: 9   0: 12            in one partition, a sink that was killed between
    ✓      ✓      ✓      ·      ·      ✓                an offset that is not above the last one was written again

A sink writes without gaps and in order, so whatever comes again has come before.
"""

from collections.abc import Iterable

from headrace.kafka.headers import OFFSET_HEADER, PARTITION_HEADER, TOPIC_HEADER

SourceKey = tuple[int, bytes, bytes]


class SinkTopicDeduplicator:
    """Tells a record that was written again from news; `last` is to be kept with what is made of the records.

    >>> once = SinkTopicDeduplicator()
    >>> def headers(offset):
    ...     return [TOPIC_HEADER.write("payments.clean"), PARTITION_HEADER.write(0), OFFSET_HEADER.write(offset)]
    >>> [once.is_new(2, headers(offset)) for offset in (5, 9, 5, 9, 12)]
    [True, True, False, False, True]
    """

    def __init__(self, last_offsets: dict[SourceKey, int] | None = None) -> None:
        self.last_offsets = {} if last_offsets is None else last_offsets

    def is_new(self, partition: int, headers: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a record of a partition, with these headers, is read for the first time."""
        header_values = dict(headers)
        source_key = partition, header_values[TOPIC_HEADER.name], header_values[PARTITION_HEADER.name]
        offset = int(header_values[OFFSET_HEADER.name])
        if offset <= self.last_offsets.get(source_key, -1):
            return False
        self.last_offsets[source_key] = offset
        return True
