"""A group consumer whose offsets are kept elsewhere, for batches that may have to wait.

consumed, in flight     ├──────────┤ ░░░░░░ not fetched while the batch in flight waits
                        └ heartbeats go on meanwhile: the partitions stay assigned

An external offset is the next offset, and the last raw offset before it, by which a replay of the gate is recognized.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from headrace.kafka.client.client import LOGGER, REQUEST_TIMEOUT_SECONDS, to_headrace_error
from headrace.kafka.consumers.group_consumer import GroupConsumer, to_partitions
from headrace.kafka.consumers.tailing_consumer import MAX_POLL_RECORDS, POLL_SECONDS
from headrace.kafka.record import ConsumerRecord, Partition


class ExternalOffset(NamedTuple):
    """The position in a partition; nothing has been read where `next_offset` is negative."""

    next_offset: int = -1
    last_raw_offset: int = -1


ExternalOffsets = dict[Partition, ExternalOffset]


class BatchProcessor(Protocol):
    """Processes records, in the consumer's thread."""

    def on_partitions_assigned(
        self, committed: Mapping[Partition, ExternalOffset]
    ) -> Mapping[Partition, ExternalOffset]:
        """Called with assigned partitions and their committed offsets; returns where to start."""

    def add_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Accept records to process, in order of each partition."""

    def process_ready(self) -> bool:
        """Process what is ready now; returns whether more records are wanted."""

    def on_partitions_revoked(self, partitions: Sequence[Partition]) -> None:
        """Called with revoked partitions: their new consumer gets the records in flight."""


class ExternalOffsetConsumer(GroupConsumer):
    """A consumer of a group that hands records to `processor`, which decides the start offsets and the commits."""

    def __init__(self, broker: str, topics: Sequence[str], processor: BatchProcessor, group: str) -> None:
        super().__init__(broker, topics, processor.add_records, group)
        self._processor, self._wants_more = processor, True
        self._consumer: Consumer | None = None

    def _settings(self) -> dict[str, object]:
        overrides = {"enable.auto.commit": False, "session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_500}
        return {**super()._settings(), **overrides}

    def commit_offsets(self, offsets: Mapping[Partition, ExternalOffset], *, is_synchronous: bool = True) -> None:
        """Commit offsets to the group."""
        self.positions.advance_to({partition: offset.next_offset for partition, offset in offsets.items()})
        topic_partitions = [
            TopicPartition(*at, position.next_offset, str(position.last_raw_offset)) for at, position in offsets.items()
        ]
        if self._consumer is None or not topic_partitions:
            return
        try:
            self._consumer.commit(offsets=topic_partitions, asynchronous=not is_synchronous)  # type: ignore[call-overload]
        except KafkaException as failure:
            if is_synchronous:
                raise to_headrace_error(self._broker, f"commit offsets of group {self._group!r}", failure) from failure
            LOGGER.info("Could not commit offsets for group %s: %s", self._group, failure)

    def seek_to(self, offsets: Mapping[Partition, ExternalOffset]) -> None:
        """Continue from other offsets: another consumer has advanced them."""
        for partition, offset in offsets.items():
            if self._consumer is not None:
                self._consumer.seek(_to_topic_partition(partition, offset))

    def _start_consuming(self, consumer: Consumer) -> None:
        self._consumer = consumer
        super()._start_consuming(consumer)

    def _step(self, consumer: Consumer) -> None:
        if self._wants_more:
            super()._step(consumer)
        else:
            self._poll_paused(consumer)
        wanted_more, self._wants_more = self._wants_more, self._processor.process_ready()
        if wanted_more and not self._wants_more:
            consumer.pause(consumer.assignment())
        elif self._wants_more and not wanted_more:
            consumer.resume(consumer.assignment())

    def _poll_paused(self, consumer: Consumer) -> None:
        """Poll while paused, so that the group keeps this member; newly assigned partitions may bring records."""
        consumer.pause(consumer.assignment())
        message = consumer.poll(POLL_SECONDS)
        if message is not None:
            self._handle_messages(consumer, [message, *consumer.consume(MAX_POLL_RECORDS - 1, 0)])

    def _process_records(self, _consumer: Consumer, records: list[ConsumerRecord]) -> None:
        self._processor.add_records(records)
        self._mark_connected()

    def _on_assigned(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        super()._on_assigned(consumer, assigned)
        committed = self._committed_offsets(consumer, assigned)
        committed |= self._initial_offsets(
            [partition for partition, offset in committed.items() if offset.next_offset < 0]
        )
        start_offsets = self._processor.on_partitions_assigned(committed)
        consumer.incremental_assign([_to_topic_partition(at, place) for at, place in start_offsets.items()])

    def _initial_offsets(self, partitions: Sequence[Partition]) -> ExternalOffsets:
        """The start offsets of partitions without a commit; commits them, so that the group's lag is visible."""
        start_offsets = {
            partition: ExternalOffset(start_offset)
            for partition, start_offset in self._offset_client.start_offsets(partitions).items()
        }
        self.commit_offsets(start_offsets, is_synchronous=False)
        return start_offsets

    def _on_revoked(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._processor.on_partitions_revoked(to_partitions(revoked))
        super()._on_revoked(consumer, revoked)

    def _committed_offsets(self, consumer: Consumer, assigned: list[TopicPartition]) -> ExternalOffsets:
        try:
            committed = consumer.committed(assigned, timeout=REQUEST_TIMEOUT_SECONDS)
        except KafkaException as failure:
            raise to_headrace_error(self._broker, f"list offsets of group {self._group!r}", failure) from failure
        return {
            Partition(topic_partition.topic, topic_partition.partition): _to_external_offset(topic_partition)
            for topic_partition in committed
        }


def _to_topic_partition(partition: Partition, offset: ExternalOffset) -> TopicPartition:
    return TopicPartition(*partition, OFFSET_BEGINNING if offset.next_offset < 0 else offset.next_offset)


def _to_external_offset(committed: TopicPartition) -> ExternalOffset:
    """Parse a committed offset; one that another tool has set has no last raw offset."""
    if committed.offset < 0:
        return ExternalOffset()
    metadata = committed.metadata or ""
    return ExternalOffset(committed.offset, int(metadata) if metadata.lstrip("-").isdigit() else -1)
