"""Following topics together where a record takes its time: many are in hand at once, and each is done when it is.

taken        ├───────────────────────┤
done          ■ ■ ■ · ■ ■ · · ■
committed    ├─────┤                         only what everything before it is done with, and is in the log
"""

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from headrace.log.connect import ANSWER_SECONDS, refusal
from headrace.log.follow import AT_ONCE, POLL_SECONDS
from headrace.log.records import Partition, Record
from headrace.log.share import SharedFollower, plain, store_offset

TICK_SECONDS = 0.002
SETTLE_SECONDS = 0.2
MOST_IN_HAND = AT_ONCE


class Work(Protocol):
    """What is done with records, in the follower's thread."""

    def begin(self, partitions: Sequence[Partition]) -> None:
        """These partitions are given to this follower, and none of their records has been taken yet."""

    def take(self, records: Sequence[Record]) -> None:
        """Records to be worked on."""

    def wait(self, seconds: float) -> None:
        """Wait until something in hand may be done; so long at most."""

    def go_on(self) -> Iterable[Record]:
        """Do what can be done now; gives the records that are done with."""

    def settle(self) -> None:
        """Wait until what was made of the records that are done with is in the log."""

    def give_up(self, partitions: Sequence[Partition]) -> None:
        """These partitions are another follower's now: their records in hand are its."""


class InHand:
    """The offsets that are being worked on, by partition.

    >>> hand, place = InHand(), Partition("payments.clean", 0)
    >>> hand.take(place, 7), hand.take(place, 8), hand.take(place, 9)
    (None, None, None)
    >>> hand.done(place, 8)
    >>> hand.reached()
    {Partition(topic='payments.clean', number=0): 7}
    >>> hand.done(place, 7)
    >>> hand.reached(), len(hand)
    ({Partition(topic='payments.clean', number=0): 9}, 1)
    """

    def __init__(self) -> None:
        self._next: dict[Partition, int] = {}
        self._offsets: dict[Partition, dict[int, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, partition: Partition, offset: int) -> None:
        """Offsets of a partition come in their order."""
        self._next[partition] = offset + 1
        self._offsets.setdefault(partition, {})[offset] = None
        self._count += 1

    def done(self, partition: Partition, offset: int) -> None:
        del self._offsets[partition][offset]
        self._count -= 1

    def give_up(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)
            self._count -= len(self._offsets.pop(partition, {}))

    def reached(self) -> dict[Partition, int]:
        """Of each partition, the first offset that is not done with."""
        return {partition: next(iter(self._offsets[partition]), end) for partition, end in self._next.items()}


class WorkFollower(SharedFollower):
    """A follower of a group that hands records to `work`; a group that never was begins `begin_us` before now.

    Nothing is committed before everything up to it is done and settled: records may come twice, never not at all.
    """

    def __init__(self, broker: str, topic: str, work: Work, group: str, begin_us: int) -> None:
        super().__init__(broker, [topic], work.take, group)
        self._work, self._begin_us = work, begin_us
        self._in_hand = InHand()
        self._settle_at = 0.0

    def _settings(self) -> dict[str, object]:
        # The least a broker allows unless told otherwise: so long do the partitions of a killed one stand still.
        return {**super()._settings(), "session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_500}

    @property
    def lag(self) -> int:
        """How many records of its partitions it has not done with; asks the broker."""
        reached = self.positions.next
        ends = self._offsets.end_of(reached)
        return sum(max(0, end - reached[partition]) for partition, end in ends.items())

    def _step(self, consumer: Consumer) -> None:
        if len(self._in_hand):
            self._work.wait(TICK_SECONDS)
        if len(self._in_hand) < MOST_IN_HAND:
            self._take(consumer)
        for record in self._work.go_on():
            self._in_hand.done(Partition(record.topic, record.partition), record.offset)
        if time.monotonic() > self._settle_at:
            self._settle(consumer)

    def _take(self, consumer: Consumer) -> None:
        # As a Follower does, but whoever has something in hand has waited already.
        first = consumer.poll(0 if len(self._in_hand) else POLL_SECONDS)
        if first is None:
            self._rest(consumer)
            return
        self._sort(consumer, [first, *consumer.consume(AT_ONCE - 1, 0)])

    def _hand_over(self, _consumer: Consumer, records: list[Record]) -> None:
        for record in records:
            self._in_hand.take(Partition(record.topic, record.partition), record.offset)
        self._work.take(records)
        self._well()

    def _settle(self, consumer: Consumer) -> None:
        """What is done is first in the log, and then ready to be committed."""
        reached = self._in_hand.reached()
        self._work.settle()
        for partition, offset in self.positions.reach(reached).items():
            store_offset(consumer, partition, offset)
        self._settle_at = time.monotonic() + SETTLE_SECONDS

    def _end(self, consumer: Consumer) -> None:
        self._settle(consumer)

    def _revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._settle(consumer)
        partitions = plain(taken)
        self._work.give_up(partitions)
        self._in_hand.give_up(partitions)
        super()._revoked(consumer, taken)

    def _assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        super()._assigned(consumer, given)
        self._work.begin(plain(given))
        consumer.incremental_assign(self._begun(consumer, given))

    def _begun(self, consumer: Consumer, given: list[TopicPartition]) -> list[TopicPartition]:
        """Where the group was in each partition, or where it begins."""
        try:
            places = consumer.committed(given, timeout=ANSWER_SECONDS)
        except KafkaException as failure:
            raise refusal(self._broker, f"tell where the group {self._group!r} was", failure) from failure
        if all(place.offset != OFFSET_INVALID for place in places):
            return places
        begins = self._offsets.since(self.topics[0], time.time_ns() // 1000 - self._begin_us)
        for place in places:
            if place.offset == OFFSET_INVALID:
                place.offset = begins[place.partition]
        return places
