"""Reads the latest records of topics, once for each call."""

from collections.abc import Iterator

from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import ConsumerRecord, Partition


class LastRecordsReader:
    """Reads the records that topics have received since the last call, up to a maximum number spread evenly over the
    partitions.
    """

    def __init__(self, broker: str, topic: str, max_records: int, *more_topics: str) -> None:
        self._broker, self._topics, self._max_records = broker, (topic, *more_topics), max_records
        self._offset_client = OffsetClient(broker)
        self._next_offsets: dict[Partition, int] = {}

    def read_new_records(self) -> Iterator[ConsumerRecord]:
        """The new records, in order of each partition."""
        end_offsets = self._offset_client.topic_end_offsets(self._topics)
        max_per_partition = self._max_records // max(1, len(end_offsets))
        start_offsets = {
            partition: max(
                start_offset, end_offsets[partition] - max_per_partition, self._next_offsets.get(partition, 0)
            )
            for partition, start_offset in self._offset_client.start_offsets(end_offsets).items()
        }
        self._next_offsets = end_offsets
        yield from read_offset_range(self._broker, start_offsets, end_offsets)
