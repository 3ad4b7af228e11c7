"""Consumer groups: where others have committed to have come, and what Headrace's own queries tell that way.

Spark keeps the places of its queries in checkpoints, which no other tool reads. Told as the offsets of a group that
has no members, they are seen by whatever looks at groups: kafka-consumer-groups.sh, Burrow, kminion.

Each group has a client of its own that subscribes to nothing. librdkafka's admin client could speak for all of them,
and aborts the process where an answer and its time-out cross each other.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.log.connect import ANSWER_SECONDS, LOGGER, client_settings
from headrace.log.records import Partition

MOST = 32  # groups told of: each costs a few threads that sleep
# A client that ends waits as long as a session lasts for what a broker that is gone has not answered.
ALONE = {"enable.auto.commit": False, "session.timeout.ms": 1000, "heartbeat.interval.ms": 300}


class Groups:
    """Asks for the offsets of groups, and sets them."""

    def __init__(self, broker: str, timeout: float = ANSWER_SECONDS) -> None:
        self._broker, self._timeout = broker, timeout
        self._clients: dict[str, Consumer] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def committed(self, wanted: Mapping[str, Iterable[Partition]]) -> dict[str, dict[Partition, int]]:
        """Where each group is in those partitions that it has committed something of; one nobody answers for is not."""
        found = {}
        for group, places in wanted.items():
            asked = [TopicPartition(*place) for place in places]
            try:
                found[group] = _places(self._client(group).committed(asked, timeout=self._timeout)) if asked else {}
            except KafkaException as failure:
                LOGGER.info("Nobody answered for the group %s: %s", group, failure)
        return found

    def publish(self, offsets: Mapping[str, Mapping[Partition, int]]) -> None:
        """Set the offsets of groups without members, and wait for nobody; what a broker refuses is not told."""
        for group, places in islice(offsets.items(), MOST):
            client = self._client(group)
            client.poll(0)  # takes in what was answered before
            reached = [TopicPartition(*place, offset) for place, offset in places.items()]
            try:
                client.commit(offsets=reached, asynchronous=True)
            except KafkaException as failure:
                LOGGER.info("The group %s is not told: %s", group, failure)

    def _client(self, group: str) -> Consumer:
        if group not in self._clients:
            settings = {**client_settings(self._broker), "group.id": group, **ALONE}
            self._clients[group] = Consumer(settings, logger=LOGGER)
        return self._clients[group]


def _places(known: Iterable[TopicPartition]) -> dict[Partition, int]:
    return {Partition(at.topic, at.partition): at.offset for at in known if at.offset >= 0}
