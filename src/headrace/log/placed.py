"""Following topics together from places that are kept elsewhere, in batches that may have to wait.

taken, in hand     ├──────────┤ ░░░░░░ not fetched while what is in hand waits
                              └ the group hears of us meanwhile: its partitions stay ours

A place is the next offset, and the last raw offset before it: by that, a gate's replay is known when it is met.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from headrace.log.connect import ANSWER_SECONDS, LOGGER, refusal
from headrace.log.follow import AT_ONCE, POLL_SECONDS
from headrace.log.records import Partition, Record
from headrace.log.share import SharedFollower, plain


class Place(NamedTuple):
    """Where a reader is in a partition; nothing has been read where `next_offset` is negative."""

    next_offset: int = -1
    last_raw: int = -1


Places = dict[Partition, Place]


class Batches(Protocol):
    """What is done with records, in the follower's thread."""

    def begin(self, committed: Mapping[Partition, Place]) -> Mapping[Partition, Place]:
        """These partitions are given to this follower, with what the group knows of them; gives where to go on."""

    def take(self, records: Sequence[Record]) -> None:
        """Records to be worked on, in order of each partition."""

    def go_on(self) -> bool:
        """Do what can be done now; whether more records are wanted."""

    def give_up(self, partitions: Sequence[Partition]) -> None:
        """These partitions are another follower's now: their records in hand are its."""


class PlacedFollower(SharedFollower):
    """A follower of a group that hands records to `batches`, which says where to begin and when a place is kept."""

    def __init__(self, broker: str, topics: Sequence[str], batches: Batches, group: str) -> None:
        super().__init__(broker, topics, batches.take, group)
        self._batches, self._wants_more = batches, True
        self._consumer: Consumer | None = None

    def _settings(self) -> dict[str, object]:
        own = {"enable.auto.commit": False, "session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_500}
        return {**super()._settings(), **own}

    def commit(self, places: Mapping[Partition, Place], *, is_waited_for: bool = True) -> None:
        """Keep places as the group's own."""
        self.positions.reach({at: place.next_offset for at, place in places.items()})
        kept = [TopicPartition(*at, place.next_offset, str(place.last_raw)) for at, place in places.items()]
        if self._consumer is None or not kept:
            return
        try:
            self._consumer.commit(offsets=kept, asynchronous=not is_waited_for)  # type: ignore[call-overload]
        except KafkaException as failure:
            if is_waited_for:
                raise refusal(self._broker, f"keep the places of {self._group!r}", failure) from failure
            LOGGER.info("The group %s is not told: %s", self._group, failure)

    def go_to(self, places: Mapping[Partition, Place]) -> None:
        """Read on from other places: somebody else has been here."""
        for at, place in places.items():
            if self._consumer is not None:
                self._consumer.seek(_from(at, place))

    def _begin(self, consumer: Consumer) -> None:
        self._consumer = consumer
        super()._begin(consumer)

    def _step(self, consumer: Consumer) -> None:
        if self._wants_more:
            super()._step(consumer)
        else:
            self._wait(consumer)
        wanted, self._wants_more = self._wants_more, self._batches.go_on()
        if wanted and not self._wants_more:
            consumer.pause(consumer.assignment())
        elif self._wants_more and not wanted:
            consumer.resume(consumer.assignment())

    def _wait(self, consumer: Consumer) -> None:
        """Be heard of by the group; partitions that are given meanwhile may bring something."""
        consumer.pause(consumer.assignment())
        message = consumer.poll(POLL_SECONDS)
        if message is not None:
            self._sort(consumer, [message, *consumer.consume(AT_ONCE - 1, 0)])

    def _hand_over(self, _consumer: Consumer, records: list[Record]) -> None:
        self._batches.take(records)
        self._well()

    def _assigned(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        super()._assigned(consumer, given)
        committed = self._committed(consumer, given)
        committed |= self._begun([at for at, place in committed.items() if place.next_offset < 0])
        places = self._batches.begin(committed)
        consumer.incremental_assign([_from(at, place) for at, place in places.items()])

    def _begun(self, partitions: Sequence[Partition]) -> Places:
        """Where partitions begin that the group has not read anything of; it keeps that, so that its lag is seen."""
        begins = {at: Place(begin) for at, begin in self._offsets.begin_of(partitions).items()}
        self.commit(begins, is_waited_for=False)
        return begins

    def _revoked(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._batches.give_up(plain(taken))
        super()._revoked(consumer, taken)

    def _committed(self, consumer: Consumer, given: list[TopicPartition]) -> Places:
        try:
            known = consumer.committed(given, timeout=ANSWER_SECONDS)
        except KafkaException as failure:
            raise refusal(self._broker, f"tell where the group {self._group!r} was", failure) from failure
        return {Partition(at.topic, at.partition): _place(at) for at in known}


def _from(at: Partition, place: Place) -> TopicPartition:
    return TopicPartition(*at, OFFSET_BEGINNING if place.next_offset < 0 else place.next_offset)


def _place(committed: TopicPartition) -> Place:
    """A place as it was kept; a group that others have moved has no last raw offset."""
    if committed.offset < 0:
        return Place()
    known = committed.metadata or ""
    return Place(committed.offset, int(known) if known.lstrip("-").isdigit() else -1)
