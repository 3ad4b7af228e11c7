"""Consumer groups: where others have committed to have come, and what Headrace's own queries tell that way.

Spark keeps the places of its queries in checkpoints, which no other tool reads. Told as the offsets of a group that
has no members, they are seen by whatever looks at groups: kafka-consumer-groups.sh, Burrow, kminion.

Each group has a client of its own that subscribes to nothing. librdkafka's admin client could speak for all of them,
and aborts the process where an answer and its time-out cross each other.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.kafka.client.client import LOGGER, REQUEST_TIMEOUT_SECONDS, client_settings
from headrace.kafka.record import Partition

MAX_GROUPS = 32  # groups told of: each costs a few threads that sleep
# A client that ends waits as long as a session lasts for what a broker that is gone has not answered.
MEMBERLESS_SETTINGS = {"enable.auto.commit": False, "session.timeout.ms": 1000, "heartbeat.interval.ms": 300}


class ConsumerGroupOffsets:
    """Asks for the offsets of groups, and sets them."""

    def __init__(self, broker: str, timeout: float = REQUEST_TIMEOUT_SECONDS) -> None:
        self._broker, self._timeout = broker, timeout
        self._clients: dict[str, Consumer] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def read_committed_offsets(
        self, partitions_by_group: Mapping[str, Iterable[Partition]]
    ) -> dict[str, dict[Partition, int]]:
        """Where each group is in those partitions that it has committed something of; one nobody answers for is not."""
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
                LOGGER.info("Nobody answered for the group %s: %s", group, failure)
        return offsets_by_group

    def publish_offsets(self, offsets_by_group: Mapping[str, Mapping[Partition, int]]) -> None:
        """Set the offsets of groups without members, and wait for nobody; what a broker refuses is not told."""
        for group, group_offsets in islice(offsets_by_group.items(), MAX_GROUPS):
            client = self._client(group)
            client.poll(0)  # takes in what was answered before
            topic_partitions = [TopicPartition(*partition, offset) for partition, offset in group_offsets.items()]
            try:
                client.commit(offsets=topic_partitions, asynchronous=True)
            except KafkaException as failure:
                LOGGER.info("The group %s is not told: %s", group, failure)

    def _client(self, group: str) -> Consumer:
        if group not in self._clients:
            settings = {**client_settings(self._broker), "group.id": group, **MEMBERLESS_SETTINGS}
            self._clients[group] = Consumer(settings, logger=LOGGER)
        return self._clients[group]


def _valid_offsets(committed: Iterable[TopicPartition]) -> dict[Partition, int]:
    return {
        Partition(position.topic, position.partition): position.offset for position in committed if position.offset >= 0
    }
