"""Reads the records of an offset range, once."""

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, Message, TopicPartition

from headrace.kafka.client.client import LOGGER, REQUEST_TIMEOUT_SECONDS, client_settings
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.consumers.tailing_consumer import MAX_POLL_RECORDS
from headrace.kafka.record import ConsumerRecord, Partition, to_record

READ_AHEAD_KB = 8192


def read_offset_range(
    broker: str,
    start_offsets: Mapping[Partition, int],
    end_offsets: Mapping[Partition, int],
    *,
    include_uncommitted: bool = False,
) -> Iterator[ConsumerRecord]:
    """The records from `start_offsets` up to `end_offsets` (exclusive), in order of each partition.

    With `include_uncommitted`, this includes records of open or aborted transactions, as Spark reads them.
    """
    remaining = {partition: end for partition, end in end_offsets.items() if start_offsets[partition] < end}
    if not remaining:
        return
    isolation = "read_uncommitted" if include_uncommitted else "read_committed"
    consumer = Consumer({**range_reader_settings(broker), "isolation.level": isolation}, logger=LOGGER)
    try:
        consumer.assign([TopicPartition(*partition, start_offsets[partition]) for partition in remaining])
        while remaining:
            first = consumer.poll(REQUEST_TIMEOUT_SECONDS)
            if first is None:
                raise BrokerUnreachable(broker)
            for message in [first, *consumer.consume(MAX_POLL_RECORDS - 1, 0)]:
                yield from _accept_message(message, remaining)
    finally:
        consumer.close()


def range_reader_settings(broker: str) -> dict[str, object]:
    """The settings of a consumer that reads existing records once."""
    return {
        **client_settings(broker),
        "group.id": "headrace",  # required by the client, though nothing is committed
        "auto.offset.reset": "earliest",  # skips what retention has removed meanwhile
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "queued.max.messages.kbytes": READ_AHEAD_KB,
    }


def _accept_message(message: Message, remaining: dict[Partition, int]) -> Iterator[ConsumerRecord]:
    """The record of a message, if it is within the range."""
    record, error = to_record(message), message.error()
    partition = Partition(record.topic, record.partition)
    end = remaining.get(partition, 0)
    if error is not None and error.name() == "_PARTITION_EOF":
        remaining.pop(partition, None)
    elif error is None:
        if record.offset < end:
            yield record
        if record.offset + 1 >= end:
            remaining.pop(partition, None)
