"""Following topics together from places that are kept elsewhere, in batches that may have to wait.

taken, in hand     ├──────────┤ ░░░░░░ not fetched while what is in hand waits
                              └ the group hears of us meanwhile: its partitions stay ours

A place is the next offset, and the last raw offset before it: by that, a gate's replay is known when it is met.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from headrace.kafka.client.client import LOGGER, REQUEST_TIMEOUT_SECONDS, to_headrace_error
from headrace.kafka.consumers.group_consumer import GroupConsumer, to_partitions
from headrace.kafka.consumers.tailing_consumer import MAX_POLL_RECORDS, POLL_SECONDS
from headrace.kafka.record import ConsumerRecord, Partition


class ExternalOffset(NamedTuple):
    """Where a reader is in a partition; nothing has been read where `next_offset` is negative."""

    next_offset: int = -1
    last_raw_offset: int = -1


ExternalOffsets = dict[Partition, ExternalOffset]


class BatchProcessor(Protocol):
    """What is done with records, in the follower's thread."""

    def on_partitions_assigned(
        self, committed: Mapping[Partition, ExternalOffset]
    ) -> Mapping[Partition, ExternalOffset]:
        """These partitions are given to this follower, with what the group knows of them; gives where to go on."""

    def add_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Records to be worked on, in order of each partition."""

    def process_ready(self) -> bool:
        """Do what can be done now; whether more records are wanted."""

    def on_partitions_revoked(self, partitions: Sequence[Partition]) -> None:
        """These partitions are another follower's now: their records in hand are its."""


class ExternalOffsetConsumer(GroupConsumer):
    """A follower of a group that hands records to `batches`, which says where to begin and when a place is kept."""

    def __init__(self, broker: str, topics: Sequence[str], processor: BatchProcessor, group: str) -> None:
        super().__init__(broker, topics, processor.add_records, group)
        self._processor, self._wants_more = processor, True
        self._consumer: Consumer | None = None

    def _settings(self) -> dict[str, object]:
        overrides = {"enable.auto.commit": False, "session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_500}
        return {**super()._settings(), **overrides}

    def commit_offsets(self, offsets: Mapping[Partition, ExternalOffset], *, is_synchronous: bool = True) -> None:
        """Keep places as the group's own."""
        self.positions.advance_to({partition: offset.next_offset for partition, offset in offsets.items()})
        topic_partitions = [
            TopicPartition(*at, place.next_offset, str(place.last_raw_offset)) for at, place in offsets.items()
        ]
        if self._consumer is None or not topic_partitions:
            return
        try:
            self._consumer.commit(offsets=topic_partitions, asynchronous=not is_synchronous)  # type: ignore[call-overload]
        except KafkaException as failure:
            if is_synchronous:
                raise to_headrace_error(self._broker, f"keep the places of {self._group!r}", failure) from failure
            LOGGER.info("The group %s is not told: %s", self._group, failure)

    def seek_to(self, offsets: Mapping[Partition, ExternalOffset]) -> None:
        """Read on from other places: somebody else has been here."""
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
        """Be heard of by the group; partitions that are given meanwhile may bring something."""
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
        """Where partitions begin that the group has not read anything of; it keeps that, so that its lag is seen."""
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
            raise to_headrace_error(self._broker, f"tell where the group {self._group!r} was", failure) from failure
        return {
            Partition(topic_partition.topic, topic_partition.partition): _to_external_offset(topic_partition)
            for topic_partition in committed
        }


def _to_topic_partition(partition: Partition, offset: ExternalOffset) -> TopicPartition:
    return TopicPartition(*partition, OFFSET_BEGINNING if offset.next_offset < 0 else offset.next_offset)


def _to_external_offset(committed: TopicPartition) -> ExternalOffset:
    """A place as it was kept; a group that others have moved has no last raw offset."""
    if committed.offset < 0:
        return ExternalOffset()
    metadata = committed.metadata or ""
    return ExternalOffset(committed.offset, int(metadata) if metadata.lstrip("-").isdigit() else -1)
