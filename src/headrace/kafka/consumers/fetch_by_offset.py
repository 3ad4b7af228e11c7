"""Fetches single records by topic-partition@offset."""

from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, TopicPartition

from headrace.kafka.client.client import LOGGER, REQUEST_TIMEOUT_SECONDS
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.consumers.offset_range import range_reader_settings
from headrace.kafka.record import ConsumerRecord, Partition, to_record


def fetch_records(broker: str, offsets: Iterable[tuple[Partition, int]]) -> Iterator[ConsumerRecord]:
    """The records at these offsets that the log still has."""
    sorted_offsets = sorted(offsets)
    if not sorted_offsets:
        return
    consumer = Consumer(range_reader_settings(broker), logger=LOGGER)
    try:
        for partition, offset in sorted_offsets:
            consumer.assign([TopicPartition(*partition, offset)])
            message = consumer.poll(REQUEST_TIMEOUT_SECONDS)
            if message is None:
                raise BrokerUnreachable(broker)
            # For a deleted record the next one is read, or the end of the partition.
            if message.error() is None and message.offset() == offset:
                yield to_record(message)
    finally:
        consumer.close()
