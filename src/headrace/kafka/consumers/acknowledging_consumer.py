"""A group consumer that processes many records at once, and commits when they are acknowledged.

consumed     ├───────────────────────┤
done          ■ ■ ■ · ■ ■ · · ■
committed    ├─────┤                         only offsets before which everything is done, and flushed to the log
"""

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from headrace.kafka.client.client import REQUEST_TIMEOUT_SECONDS, to_headrace_error
from headrace.kafka.consumers.group_consumer import GroupConsumer, store_offset, to_partitions
from headrace.kafka.consumers.tailing_consumer import MAX_POLL_RECORDS, POLL_SECONDS
from headrace.kafka.record import ConsumerRecord, Partition

TICK_SECONDS = 0.002
FLUSH_INTERVAL_SECONDS = 0.2
MAX_IN_FLIGHT = MAX_POLL_RECORDS


class RecordProcessor(Protocol):
    """Processes records, in the consumer's thread."""

    def on_partitions_assigned(self, partitions: Sequence[Partition]) -> None:
        """Called with newly assigned partitions, before any of their records."""

    def add_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Accept records to process."""

    def wait_for_progress(self, seconds: float) -> None:
        """Wait until a record in flight may be done, for at most this long."""

    def process_ready(self) -> Iterable[ConsumerRecord]:
        """Process what is ready now, and return the records that are done."""

    def flush(self) -> None:
        """Wait until the output of all records that are done is in the log."""

    def on_partitions_revoked(self, partitions: Sequence[Partition]) -> None:
        """Called with revoked partitions: their new consumer gets the records in flight."""


class InFlightOffsets:
    """The offsets in flight, by partition.

    >>> in_flight, partition = InFlightOffsets(), Partition("payments.clean", 0)
    >>> in_flight.add(partition, 7), in_flight.add(partition, 8), in_flight.add(partition, 9)
    (None, None, None)
    >>> in_flight.complete(partition, 8)
    >>> in_flight.committable_offsets()
    {Partition(topic='payments.clean', number=0): 7}
    >>> in_flight.complete(partition, 7)
    >>> in_flight.committable_offsets(), len(in_flight)
    ({Partition(topic='payments.clean', number=0): 9}, 1)
    """

    def __init__(self) -> None:
        self._next_offsets: dict[Partition, int] = {}
        self._in_flight: dict[Partition, dict[int, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, partition: Partition, offset: int) -> None:
        """Add an offset; offsets of a partition come in order."""
        self._next_offsets[partition] = offset + 1
        self._in_flight.setdefault(partition, {})[offset] = None
        self._count += 1

    def complete(self, partition: Partition, offset: int) -> None:
        del self._in_flight[partition][offset]
        self._count -= 1

    def remove_partitions(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._next_offsets.pop(partition, None)
            self._count -= len(self._in_flight.pop(partition, {}))

    def committable_offsets(self) -> dict[Partition, int]:
        """For each partition, the first offset that is not done."""
        return {partition: next(iter(self._in_flight[partition]), end) for partition, end in self._next_offsets.items()}


class AcknowledgingConsumer(GroupConsumer):
    """A consumer of a group that hands records to `processor`; a new group starts `lookback_us` before now.

    An offset is committed only after everything before it is done and flushed: at-least-once.
    """

    def __init__(self, broker: str, topic: str, processor: RecordProcessor, group: str, lookback_us: int) -> None:
        super().__init__(broker, [topic], processor.add_records, group)
        self._processor, self._lookback_us = processor, lookback_us
        self._in_flight = InFlightOffsets()
        self._flush_at = 0.0

    def _settings(self) -> dict[str, object]:
        # The broker's default minimum: the partitions of a killed consumer stay unassigned for this long.
        return {**super()._settings(), "session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_500}

    @property
    def lag(self) -> int:
        """How many records of its partitions are not done; asks the broker."""
        next_offsets = self.positions.next_offsets
        end_offsets = self._offset_client.end_offsets(next_offsets)
        return sum(max(0, end - next_offsets[partition]) for partition, end in end_offsets.items())

    def _step(self, consumer: Consumer) -> None:
        if len(self._in_flight):
            self._processor.wait_for_progress(TICK_SECONDS)
        if len(self._in_flight) < MAX_IN_FLIGHT:
            self._poll_messages(consumer)
        for record in self._processor.process_ready():
            self._in_flight.complete(Partition(record.topic, record.partition), record.offset)
        if time.monotonic() > self._flush_at:
            self._flush_and_store_offsets(consumer)

    def _poll_messages(self, consumer: Consumer) -> None:
        # As TailingConsumer does, but with records in flight it has waited already.
        first = consumer.poll(0 if len(self._in_flight) else POLL_SECONDS)
        if first is None:
            self._handle_empty_poll(consumer)
            return
        self._handle_messages(consumer, [first, *consumer.consume(MAX_POLL_RECORDS - 1, 0)])

    def _process_records(self, _consumer: Consumer, records: list[ConsumerRecord]) -> None:
        for record in records:
            self._in_flight.add(Partition(record.topic, record.partition), record.offset)
        self._processor.add_records(records)
        self._mark_connected()

    def _flush_and_store_offsets(self, consumer: Consumer) -> None:
        """Flush the output of what is done, then store its offsets for the next commit."""
        committable = self._in_flight.committable_offsets()
        self._processor.flush()
        for partition, offset in self.positions.advance_to(committable).items():
            store_offset(consumer, partition, offset)
        self._flush_at = time.monotonic() + FLUSH_INTERVAL_SECONDS

    def _before_close(self, consumer: Consumer) -> None:
        self._flush_and_store_offsets(consumer)

    def _on_revoked(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self._flush_and_store_offsets(consumer)
        partitions = to_partitions(revoked)
        self._processor.on_partitions_revoked(partitions)
        self._in_flight.remove_partitions(partitions)
        super()._on_revoked(consumer, revoked)

    def _on_assigned(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        super()._on_assigned(consumer, assigned)
        self._processor.on_partitions_assigned(to_partitions(assigned))
        consumer.incremental_assign(self._start_positions(consumer, assigned))

    def _start_positions(self, consumer: Consumer, assigned: list[TopicPartition]) -> list[TopicPartition]:
        """The committed offset of each partition, or where the group starts."""
        try:
            positions = consumer.committed(assigned, timeout=REQUEST_TIMEOUT_SECONDS)
        except KafkaException as failure:
            raise to_headrace_error(self._broker, f"list offsets of group {self._group!r}", failure) from failure
        if all(position.offset != OFFSET_INVALID for position in positions):
            return positions
        start_offsets = self._offset_client.offsets_for_time(self.topics[0], time.time_ns() // 1000 - self._lookback_us)
        for place in positions:
            if place.offset == OFFSET_INVALID:
                place.offset = start_offsets[place.partition]
        return positions
