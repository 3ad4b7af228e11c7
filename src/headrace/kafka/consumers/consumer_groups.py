"""Committed offsets of consumer groups: reads those of consumers, and publishes those of Headrace's queries.

Spark keeps the offsets of its queries in checkpoints, which no other tool reads. Published as the offsets of a group
without members, they are visible to any tool for consumer groups: kafka-consumer-groups.sh, Burrow, kminion.

Each group has a client of its own that subscribes to nothing. librdkafka's admin client could query all groups, but
it aborts the process where a response and its time-out coincide.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.kafka.client.client import LOGGER, REQUEST_TIMEOUT_SECONDS, client_settings
from headrace.kafka.record import Partition

MAX_GROUPS = 32  # published groups: each costs a few idle threads
# On close a client waits for the session time-out for requests that a stopped broker has not answered.
MEMBERLESS_SETTINGS = {"enable.auto.commit": False, "session.timeout.ms": 1000, "heartbeat.interval.ms": 300}


class ConsumerGroupOffsets:
    """Reads and sets the offsets of groups."""

    def __init__(self, broker: str, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._broker, self._timeout = broker, timeout
        self._clients: dict[str, Consumer] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def read_committed_offsets(
        self, partitions_by_group: Mapping[str, Iterable[Partition]]
    ) -> dict[str, dict[Partition, int]]:
        """The committed offsets of each group in those partitions; groups without an answer are left out."""
        offsets_by_group = {}
        for group, partitions in partitions_by_group.items():
            topic_partitions = [TopicPartition(*partition) for partition in partitions]
            try:
                offsets_by_group[group] = (
                    _valid_offsets(self._client(group).committed(topic_partitions, timeout=self._timeout))
                    if topic_partitions
                    else {}
                )
            except KafkaException as failure:
                LOGGER.info("Could not read the committed offsets of group %s: %s", group, failure)
        return offsets_by_group

    def publish_offsets(self, offsets_by_group: Mapping[str, Mapping[Partition, int]]) -> None:
        """Set the offsets of groups without members, without waiting; a refusal is not reported."""
        for group, group_offsets in islice(offsets_by_group.items(), MAX_GROUPS):
            client = self._client(group)
            client.poll(0)  # handles earlier responses
            topic_partitions = [TopicPartition(*partition, offset) for partition, offset in group_offsets.items()]
            try:
                client.commit(offsets=topic_partitions, asynchronous=True)
            except KafkaException as failure:
                LOGGER.info("Could not publish the offsets of group %s: %s", group, failure)

    def _client(self, group: str) -> Consumer:
        if group not in self._clients:
            settings = {**client_settings(self._broker), "group.id": group, **MEMBERLESS_SETTINGS}
            self._clients[group] = Consumer(settings, logger=LOGGER)
        return self._clients[group]


def _valid_offsets(committed: Iterable[TopicPartition]) -> dict[Partition, int]:
    return {
        Partition(position.topic, position.partition): position.offset for position in committed if position.offset >= 0
    }
