"""A group consumer: the members of a group share the partitions."""

import time
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.errors import HeadraceError
from headrace.kafka.client.client import LOGGER
from headrace.kafka.consumers.tailing_consumer import (
    RETRY_SECONDS,
    ConsumerState,
    ConsumerStuck,
    RecordHandler,
    TailingConsumer,
)
from headrace.kafka.record import ConsumerRecord, Partition

IDLE_INTERVAL_SECONDS = 1.0
UNKNOWN_END_OFFSET = 2**63 - 1
# After a coordinator outage a librdkafka 2 client may search for it in vain for ever: it is replaced after this time.
JOIN_TIMEOUT_SECONDS = 90.0


class RewindRequested(Exception):
    """Raised while records are handled: read these partitions again from their start."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.partitions = frozenset(partitions)


class GroupConsumer(TailingConsumer):
    """A member of a consumer group, which continues from the committed offsets.

    An offset is committed only after `handler` has returned for it: at-least-once.
    `on_idle` is called every second without a record. Both may raise `RewindRequested`.
    """

    def __init__(
        self,
        broker: str,
        topics: Sequence[str],
        handler: RecordHandler,
        group: str,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(broker, topics, handler)
        self._group, self._on_idle = group, on_idle
        self._last_idle_at = 0.0
        self._assigned_partitions: set[Partition] = set()
        self._unassigned_since: float | None = None  # since when it waits for an assignment

    def _settings(self) -> dict[str, object]:
        return {
            **super()._settings(),
            "group.id": self._group,
            "enable.auto.commit": True,  # only stored offsets, and this class stores them
            "auto.commit.interval.ms": 500,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,  # how long the partitions of a killed consumer stay unassigned
            "heartbeat.interval.ms": 2_000,
        }

    def _start_consuming(self, consumer: Consumer) -> None:
        self._assigned_partitions.clear()
        self._unassigned_since = time.monotonic()
        consumer.subscribe(
            [*self.topics], on_assign=self._on_assigned, on_revoke=self._on_revoked, on_lost=self._on_revoked
        )

    def _on_assigned(self, _consumer: Consumer, assigned: list[TopicPartition]) -> None:
        partitions = to_partitions(assigned)
        self._assigned_partitions |= set(partitions)
        self._unassigned_since = None
        try:
            end_offsets = self._offset_client.end_offsets(partitions)
        except HeadraceError:
            end_offsets = dict.fromkeys(partitions, UNKNOWN_END_OFFSET)
        # The committed offset is not requested: the first record or the end of the partition reveals it.
        self.positions.add_partitions({}, end_offsets)
        self._mark_connected()

    def _on_revoked(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        self.positions.remove_partitions(to_partitions(revoked))
        self._assigned_partitions -= set(to_partitions(revoked))
        if not self._assigned_partitions:
            self._unassigned_since = time.monotonic()
        self._notify_waiters()

    def _process_records(self, consumer: Consumer, records: list[ConsumerRecord]) -> None:
        rewound_partitions = self._run_with_rewind(consumer, lambda: self._handler(records))
        handled = [record for record in records if Partition(record.topic, record.partition) not in rewound_partitions]
        for partition, offset in self.positions.advance_past(handled).items():
            store_offset(consumer, partition, offset)
        self._mark_connected()

    def _handle_empty_poll(self, consumer: Consumer) -> None:
        super()._handle_empty_poll(consumer)
        self._require_assignment()
        if time.monotonic() - self._last_idle_at > IDLE_INTERVAL_SECONDS:
            self._run_with_rewind(consumer, self._on_idle)
            self._last_idle_at = time.monotonic()

    def _require_assignment(self) -> None:
        """Raise where this member has had no assignment for long, although the broker answers."""
        if self._unassigned_since is None or time.monotonic() - self._unassigned_since < JOIN_TIMEOUT_SECONDS:
            return
        self._unassigned_since = time.monotonic()
        if self.state is not ConsumerState.BROKER_LOST:
            raise ConsumerStuck(f"group {self._group} has given it no partitions for {JOIN_TIMEOUT_SECONDS:.0f} s")

    def _run_with_rewind(self, consumer: Consumer, step: Callable[[], None]) -> frozenset[Partition]:
        """Run a step; returns the partitions that it rewound."""
        try:
            step()
        except RewindRequested as request:
            self._rewind(consumer, request.partitions)
            return request.partitions
        return frozenset()

    def _rewind(self, consumer: Consumer, partitions: Iterable[Partition]) -> None:
        """Seek to the start, and commit that first, so that a consumer that takes over starts there too."""
        while not self._stop_event.is_set():
            try:
                start_offsets = self._offset_client.start_offsets(partitions)
                for partition, start_offset in start_offsets.items():
                    _reset_offset(consumer, partition, start_offset)
            except (HeadraceError, KafkaException) as error:
                self._mark_disconnected(str(error))
                self._stop_event.wait(RETRY_SECONDS)
            else:
                next_offsets = self.positions.next_offsets
                self.positions.add_partitions(
                    start_offsets, {partition: next_offsets.get(partition, 0) for partition in start_offsets}
                )
                return


def _reset_offset(consumer: Consumer, partition: Partition, offset: int) -> None:
    topic_partition = TopicPartition(*partition, offset)
    store_offset(consumer, partition, offset)
    consumer.commit(offsets=[topic_partition], asynchronous=False)
    consumer.seek(topic_partition)


def to_partitions(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [Partition(partition.topic, partition.partition) for partition in partitions]


def store_offset(consumer: Consumer, partition: Partition, offset: int) -> None:
    """Store the offset after what has been handled, for the next commit."""
    try:
        consumer.store_offsets(offsets=[TopicPartition(*partition, offset)])
    except KafkaException:
        # The partition was revoked while its records were in flight: its new consumer gets them again.
        LOGGER.info("Skipped the commit of %s: it was assigned to another member of the group", partition)
