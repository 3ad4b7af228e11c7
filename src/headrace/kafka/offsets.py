"""The start and end offsets of partitions."""

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # public, unmarked

from headrace.errors import HeadraceError
from headrace.kafka.client.client import REQUEST_TIMEOUT_SECONDS, create_admin_client, fetch_metadata, to_headrace_error
from headrace.kafka.record import Partition

# Errors of a partition whose leader is being elected: a new topic's first moments, a restart.
RETRIABLE_ERRORS = {
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "_NOENT",  # "No leaders found", from the client itself
}
LEADER_TIMEOUT_SECONDS = 120.0  # a busy machine elects the leaders of new topics in tens of seconds


class TopicMissing(HeadraceError):
    """Topics that should exist and do not."""

    def __init__(self, broker: str, topics: Sequence[str]) -> None:
        super().__init__(
            f"The broker at {broker!r} has no topic {', '.join(topics)}. "
            "Start the streaming part first: `headrace up APP` or `headrace run APP stream` creates it."
        )


class OffsetClient:
    """Requests start and end offsets; one connection for many requests."""

    def __init__(self, broker: str, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Without a given time-out it waits longer for a partition's leader than for a response."""
        self.broker = broker
        self._timeout = timeout
        self._leader_timeout = LEADER_TIMEOUT_SECONDS if timeout == REQUEST_TIMEOUT_SECONDS else timeout
        self._admin = create_admin_client(broker)

    def list_partitions(self, topics: Iterable[str]) -> list[Partition]:
        """The existing partitions of those topics."""
        topic_metadata = fetch_metadata(self._admin, self.broker, self._timeout).topics
        present = [topic for topic in topics if topic in topic_metadata]
        return [Partition(topic, number) for topic in present for number in sorted(topic_metadata[topic].partitions)]

    def require_partitions(self, topics: Sequence[str]) -> list[Partition]:
        """The partitions of those topics, all of which must exist."""
        partitions = self.list_partitions(topics)
        missing = set(topics) - {partition.topic for partition in partitions}
        if missing:
            raise TopicMissing(self.broker, sorted(missing))
        return partitions

    def topic_start_offsets(self, topics: Iterable[str]) -> dict[Partition, int]:
        """The offset of the oldest available record, by partition."""
        return self.start_offsets(self.list_partitions(topics))

    def topic_end_offsets(self, topics: Iterable[str]) -> dict[Partition, int]:
        """The offset of the next record, by partition."""
        return self.end_offsets(self.list_partitions(topics))

    def start_offset_list(self, topic: str) -> list[int]:
        """The offset of the oldest available record of each partition of one topic, in their order."""
        return [offset for _, offset in sorted(self.topic_start_offsets([topic]).items())]

    def end_offset_list(self, topic: str) -> list[int]:
        """The offset of the next record of each partition of one topic, in their order."""
        return [offset for _, offset in sorted(self.topic_end_offsets([topic]).items())]

    def offsets_for_time(self, topic: str, at_us: int) -> list[int]:
        """The offset of the first record appended at a time or later, in the order of the partitions."""
        first_offsets = self._list_offsets(self.list_partitions([topic]), OffsetSpec.for_timestamp(at_us // 1000))
        end_offsets = self.end_offsets(first_offsets)
        return [end_offsets[partition] if offset < 0 else offset for partition, offset in sorted(first_offsets.items())]

    def count_records_since(self, topics: Iterable[str], at_us: int) -> dict[Partition, int]:
        """How many records each partition of existing topics has received since a time."""
        first_offsets = self._list_offsets(self.list_partitions(topics), OffsetSpec.for_timestamp(at_us // 1000))
        end_offsets = self.end_offsets(first_offsets)
        return {
            partition: 0 if first < 0 else end_offsets[partition] - first for partition, first in first_offsets.items()
        }

    def start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset of the oldest available record, of known partitions."""
        return self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset of the next record, of known partitions."""
        return self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _list_offsets(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        requests = {TopicPartition(*partition): spec for partition in partitions}
        if not requests:
            return {}
        deadline = time.monotonic() + self._leader_timeout
        while True:
            responses = self._admin.list_offsets(requests, request_timeout=self._timeout).items()
            try:
                return {
                    Partition(topic_partition.topic, topic_partition.partition): future.result().offset
                    for topic_partition, future in responses
                }
            except KafkaException as failure:
                if failure.args[0].name() not in RETRIABLE_ERRORS or time.monotonic() > deadline:
                    raise to_headrace_error(self.broker, "list offsets", failure) from failure
            time.sleep(0.05)
