"""Following topics together: the followers of a group share the partitions."""

import time
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.errors import HeadraceError
from headrace.log.connect import LOGGER
from headrace.log.follow import RETRY_SECONDS, Follower, Handle, State, Stuck
from headrace.log.records import Partition, Record

IDLE_SECONDS = 1.0
UNKNOWN_END = 2**63 - 1
# A client whose coordinator stood still may look for it in vain from then on (librdkafka 2): it is given up after this.
JOIN_SECONDS = 90.0


class Rewind(Exception):
    """Raised while records are handled: read these partitions again, from their beginning."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.partitions = frozenset(partitions)


class SharedFollower(Follower):
    """A follower of a group, which goes on where the group was.

    An offset is committed only after `handle` has returned for it: records may come twice, never not at all.
    `idle` is called every second in which nothing comes. Both may raise `Rewind`.
    """

    def __init__(
        self, broker: str, topics: Sequence[str], handle: Handle, group: str, idle: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(broker, topics, handle)
        self._group, self._idle = group, idle
        self._idle_at = 0.0
        self._held: set[Partition] = set()
        self._joining_since: float | None = None  # since when it waits for the group to give it partitions, or none

    def _settings(self) -> dict[str, object]:
        return {
            **super()._settings(),
            "group.id": self._group,
            "enable.auto.commit": True,  # of what is stored, and that is stored by hand
            "auto.commit.interval.ms": 500,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,  # how long the partitions of a follower that was killed stand still
            "heartbeat.interval.ms": 2_000,
        }

    def _begin(self, consumer: Consumer) -> None:
        self._held.clear()
        self._joining_since = time.monotonic()
        consumer.subscribe([*self.topics], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _assigned(self, _consumer: Consumer, given: list[TopicPartition]) -> None:
        partitions = plain(given)
        self._held |= set(partitions)
        self._joining_since = None
        try:
            ends = self._offsets.end_of(partitions)
        except HeadraceError:
            ends = dict.fromkeys(partitions, UNKNOWN_END)
        # Where the group was is not asked: the first record or the end of the partition tells.
        self.positions.take_on({}, ends)
        self._well()

    def _revoked(self, _consumer: Consumer, taken: list[TopicPartition]) -> None:
        self.positions.give_up(plain(taken))
        self._held -= set(plain(taken))
        if not self._held:
            self._joining_since = time.monotonic()
        self._tell()

    def _hand_over(self, consumer: Consumer, records: list[Record]) -> None:
        again = self._rewound(consumer, lambda: self._handle(records))
        handled = [record for record in records if Partition(record.topic, record.partition) not in again]
        for partition, offset in self.positions.handled(handled).items():
            store_offset(consumer, partition, offset)
        self._well()

    def _rest(self, consumer: Consumer) -> None:
        super()._rest(consumer)
        self._require_joined()
        if time.monotonic() - self._idle_at > IDLE_SECONDS:
            self._rewound(consumer, self._idle)
            self._idle_at = time.monotonic()

    def _require_joined(self) -> None:
        """Raise where the group has not let this follower in for long, though the broker answers."""
        if self._joining_since is None or time.monotonic() - self._joining_since < JOIN_SECONDS:
            return
        self._joining_since = time.monotonic()
        if self.state is not State.BROKER_LOST:
            raise Stuck(f"group {self._group} has given it no partitions for {JOIN_SECONDS:.0f} s")

    def _rewound(self, consumer: Consumer, step: Callable[[], None]) -> frozenset[Partition]:
        """Do a step; gives the partitions it wanted to be read again."""
        try:
            step()
        except Rewind as wanted:
            self._rewind(consumer, wanted.partitions)
            return wanted.partitions
        return frozenset()

    def _rewind(self, consumer: Consumer, partitions: Iterable[Partition]) -> None:
        """Back to the beginning, in the group's memory first: whoever takes over goes on from there too."""
        while not self._stopping.is_set():
            try:
                begins = self._offsets.begin_of(partitions)
                for partition, begin in begins.items():
                    _back_to(consumer, partition, begin)
            except (HeadraceError, KafkaException) as problem:
                self._lost(str(problem))
                self._stopping.wait(RETRY_SECONDS)
            else:
                reached = self.positions.next
                self.positions.take_on(begins, {partition: reached.get(partition, 0) for partition in begins})
                return


def _back_to(consumer: Consumer, partition: Partition, begin: int) -> None:
    place = TopicPartition(*partition, begin)
    store_offset(consumer, partition, begin)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.seek(place)


def plain(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [Partition(partition.topic, partition.partition) for partition in partitions]


def store_offset(consumer: Consumer, partition: Partition, offset: int) -> None:
    """Mark what has been handled as ready to be committed."""
    try:
        consumer.store_offsets(offsets=[TopicPartition(*partition, offset)])
    except KafkaException:
        # Taken away while its records were in hand: its new reader gets them again.
        LOGGER.info("%s was given to another follower of the group", partition)
