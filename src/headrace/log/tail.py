"""The last records of a topic, read once."""

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, Message, TopicPartition

from headrace.log.connect import ANSWER_SECONDS, LOGGER, BrokerUnreachable, client_settings
from headrace.log.follow import AT_ONCE
from headrace.log.offsets import Offsets
from headrace.log.records import Partition, Record, record_of


class Tail:
    """Reads what has come to a topic since it was last asked; so many records at most, of each partition as many."""

    def __init__(self, broker: str, topic: str, at_most: int) -> None:
        self._broker, self._topic, self._at_most = broker, topic, at_most
        self._offsets = Offsets(broker)
        self._read: dict[Partition, int] = {}

    def news(self) -> Iterator[Record]:
        """The records, each partition's in their order."""
        ends = self._offsets.end([self._topic])
        share = self._at_most // max(1, len(ends))
        begins = {
            partition: max(begin, ends[partition] - share, self._read.get(partition, 0))
            for partition, begin in self._offsets.begin_of(ends).items()
        }
        self._read = ends
        yield from between(self._broker, begins, ends)


def between(broker: str, begins: Mapping[Partition, int], ends: Mapping[Partition, int]) -> Iterator[Record]:
    """The records from where to where partitions are told, each partition's in their order."""
    left = {partition: end for partition, end in ends.items() if begins[partition] < end}
    if not left:
        return
    consumer = Consumer(_settings(broker), logger=LOGGER)
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


def _settings(broker: str) -> dict[str, object]:
    return {
        **client_settings(broker),
        "group.id": "headrace",  # the client wants one, though nothing is committed
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }


def _taken(message: Message, left: dict[Partition, int]) -> Iterator[Record]:
    """The record of a message, if it is one that was there at the start."""
    record, error = record_of(message), message.error()
    partition = Partition(record.topic, record.partition)
    end = left.get(partition, 0)
    if error is not None and error.name() == "_PARTITION_EOF":
        left.pop(partition, None)
    elif error is None and record.offset < end:
        yield record
        if record.offset + 1 == end:
            del left[partition]
