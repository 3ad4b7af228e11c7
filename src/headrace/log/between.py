"""The records of partitions from one offset to another, read once."""

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, Message, TopicPartition

from headrace.log.connect import ANSWER_SECONDS, LOGGER, client_settings
from headrace.log.follow import AT_ONCE
from headrace.log.records import Partition, Record, record_of
from headrace.log.strangers import BrokerUnreachable

READ_AHEAD_KB = 8192


def records_between(
    broker: str, begins: Mapping[Partition, int], ends: Mapping[Partition, int], *, uncommitted: bool = False
) -> Iterator[Record]:
    """What there is from `begins` up to, not with, `ends`, each partition's in their order.

    With `uncommitted`, records of transactions that are open or aborted are among them, as Spark reads them.
    """
    left = {partition: end for partition, end in ends.items() if begins[partition] < end}
    if not left:
        return
    isolation = "read_uncommitted" if uncommitted else "read_committed"
    consumer = Consumer({**reader_settings(broker), "isolation.level": isolation}, logger=LOGGER)
    try:
        consumer.assign([TopicPartition(*partition, begins[partition]) for partition in left])
        while left:
            first = consumer.poll(ANSWER_SECONDS)
            if first is None:
                raise BrokerUnreachable(broker)
            for message in [first, *consumer.consume(AT_ONCE - 1, 0)]:
                yield from _taken(message, left)
    finally:
        consumer.close()


def reader_settings(broker: str) -> dict[str, object]:
    """How a consumer is set up that reads what is there, once."""
    return {
        **client_settings(broker),
        "group.id": "headrace",  # the client wants one, though nothing is committed
        "auto.offset.reset": "earliest",  # what retention has taken meanwhile is passed over
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "queued.max.messages.kbytes": READ_AHEAD_KB,
    }


def _taken(message: Message, left: dict[Partition, int]) -> Iterator[Record]:
    """The record of a message, if it is one that was asked for."""
    record, error = record_of(message), message.error()
    partition = Partition(record.topic, record.partition)
    end = left.get(partition, 0)
    if error is not None and error.name() == "_PARTITION_EOF":
        left.pop(partition, None)
    elif error is None:
        if record.offset < end:
            yield record
        if record.offset + 1 >= end:
            left.pop(partition, None)
