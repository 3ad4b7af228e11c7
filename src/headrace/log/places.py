"""The records at given places, read one by one."""

from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, TopicPartition

from headrace.log.between import reader_settings
from headrace.log.connect import ANSWER_SECONDS, LOGGER
from headrace.log.records import Partition, Record, record_of
from headrace.log.strangers import BrokerUnreachable


def records_at(broker: str, places: Iterable[tuple[Partition, int]]) -> Iterator[Record]:
    """Of partitions and offsets the records that the log still has there."""
    wanted = sorted(places)
    if not wanted:
        return
    consumer = Consumer(reader_settings(broker), logger=LOGGER)
    try:
        for partition, offset in wanted:
            consumer.assign([TopicPartition(*partition, offset)])
            message = consumer.poll(ANSWER_SECONDS)
            if message is None:
                raise BrokerUnreachable(broker)
            # Where there is none any more, the next one is read, or that there is no end to read up to.
            if message.error() is None and message.offset() == offset:
                yield record_of(message)
    finally:
        consumer.close()
