"""Where the partitions of topics begin and end now."""

import time
from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # public, unmarked

from headrace.errors import HeadraceError
from headrace.log.connect import ANSWER_SECONDS, admin_client, metadata, refusal
from headrace.log.records import Partition

# What a broker says of a partition whose leader is just taking over: a new topic's first moments, a restart.
PASSING = {
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "_NOENT",  # "No leaders found", by the client itself
}
LEADER_SECONDS = 120.0  # a busy machine elects the leaders of new topics in tens of seconds


class TopicMissing(HeadraceError):
    """Topics that should be there and are not."""

    def __init__(self, broker: str, topics: Sequence[str]) -> None:
        super().__init__(
            f"The broker at {broker!r} has no topic {', '.join(topics)}. "
            "Start the streaming part first: `headrace up APP` or `headrace run APP stream` creates it."
        )


class Offsets:
    """Asks the broker for the first and the next offset of partitions; one connection for many questions."""

    def __init__(self, broker: str, timeout: float = ANSWER_SECONDS) -> None:
        """Waits longer for the leader of a partition than for an answer, unless given a time-out of its own."""
        self.broker = broker
        self._timeout = timeout
        self._leader_timeout = LEADER_SECONDS if timeout == ANSWER_SECONDS else timeout
        self._admin = admin_client(broker)

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """The partitions of those topics that exist."""
        known = metadata(self._admin, self.broker, self._timeout).topics
        present = [topic for topic in topics if topic in known]
        return [Partition(topic, number) for topic in present for number in sorted(known[topic].partitions)]

    def every_partition(self, topics: Sequence[str]) -> list[Partition]:
        """The partitions of those topics, all of which must exist."""
        partitions = self.partitions(topics)
        missing = set(topics) - {partition.topic for partition in partitions}
        if missing:
            raise TopicMissing(self.broker, sorted(missing))
        return partitions

    def begin(self, topics: Iterable[str]) -> dict[Partition, int]:
        """The offset of the oldest record that is still there, per partition."""
        return self.begin_of(self.partitions(topics))

    def end(self, topics: Iterable[str]) -> dict[Partition, int]:
        """The offset the next record will get, per partition."""
        return self.end_of(self.partitions(topics))

    def begins(self, topic: str) -> list[int]:
        """The offset of the oldest record of each partition of one topic, in their order."""
        return [offset for _, offset in sorted(self.begin([topic]).items())]

    def ends(self, topic: str) -> list[int]:
        """The offset the next record of each partition of one topic will get, in their order."""
        return [offset for _, offset in sorted(self.end([topic]).items())]

    def since(self, topic: str, at_us: int) -> list[int]:
        """The offset of the first record that the log took at a time or later, in the order of the partitions."""
        found = self._ask(self.partitions([topic]), OffsetSpec.for_timestamp(at_us // 1000))
        ends = self.end_of(found)
        return [ends[partition] if offset < 0 else offset for partition, offset in sorted(found.items())]

    def added(self, topics: Iterable[str], at_us: int) -> dict[Partition, int]:
        """How many records each partition of topics that exist has taken since a time."""
        firsts = self._ask(self.partitions(topics), OffsetSpec.for_timestamp(at_us // 1000))
        ends = self.end_of(firsts)
        return {partition: 0 if first < 0 else ends[partition] - first for partition, first in firsts.items()}

    def begin_of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset of the oldest record that is still there, of partitions already known."""
        return self._ask(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_of(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offset the next record will get, of partitions already known."""
        return self._ask(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _ask(self, partitions: Iterable[Partition], which: OffsetSpec) -> dict[Partition, int]:
        asked = {TopicPartition(*partition): which for partition in partitions}
        if not asked:
            return {}
        deadline = time.monotonic() + self._leader_timeout
        while True:
            found = self._admin.list_offsets(asked, request_timeout=self._timeout).items()
            try:
                return {Partition(at.topic, at.partition): answer.result().offset for at, answer in found}
            except KafkaException as failure:
                if failure.args[0].name() not in PASSING or time.monotonic() > deadline:
                    raise refusal(self.broker, "list offsets", failure) from failure
            time.sleep(0.05)
