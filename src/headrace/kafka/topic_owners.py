"""Topic ownership: which app writes which topic, one record for each claim in `headrace.owners`.

offset 0   app A   payments.clean: epoch 1                          A owns it
offset 1   app B   payments.clean: epoch 1, refunds.clean: epoch 1  too late for payments.clean: B withdraws, and ends
offset 2   app B   payments.clean: epoch 2                          B takes it over; A reads that, and stops

Of several claims with the same epoch the first in the log counts. A claim is one record, so of two apps that start at
the same time one gets everything they both need. Keys are unique: compaction never removes a claim that counts.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from uuid import uuid4

import orjson

from headrace.errors import HeadraceError
from headrace.kafka.compacted_topic import ensure_compacted_topic, has_topic
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord

OWNERS_TOPIC = "headrace.owners"
READ_TIMEOUT_SECONDS = 60.0
MAX_NAMED_TOPICS = 3


@dataclass(frozen=True)
class TopicOwner:
    """An app that writes topics; `id` identifies its state folder, which has its checkpoints."""

    id: str
    app: str
    host: str = ""
    since_us: int = 0

    def is_same(self, other: "TopicOwner") -> bool:
        """Whether both are the same app with the same state folder."""
        return (self.id, self.app) == (other.id, other.app)


@dataclass(frozen=True)
class OwnershipClaim:
    """A claim that an owner writes these topics, each with an epoch: a greater one takes a topic over."""

    owner: TopicOwner
    topics: Mapping[str, int]


class OwnersUnavailable(HeadraceError):
    """The ownership topic was not read in time."""

    def __init__(self, error: str) -> None:
        super().__init__(f"Topic {OWNERS_TOPIC!r} was not read within {READ_TIMEOUT_SECONDS:g} s: {error}. Try again.")


class OwnershipConflictError(HeadraceError):
    """Topics that another app owns."""

    def __init__(self, owners: Mapping[str, TopicOwner]) -> None:
        owner, topics = next(iter(owners.values())), list(owners)
        topic_names = ", ".join(map(repr, topics[:MAX_NAMED_TOPICS]))
        more = f" and {len(topics) - MAX_NAMED_TOPICS} more" if len(topics) > MAX_NAMED_TOPICS else ""
        since = datetime.fromtimestamp(owner.since_us / 1_000_000, UTC).isoformat(timespec="seconds")
        super().__init__(
            f"{topic_names}{more} belong to the app {owner.app!r} on {owner.host or 'another host'} since {since} "
            f"(its state folder is {owner.id}). Two apps that write one topic count every event twice. "
            "Stop that app, or rename what both declare. If that app is gone, has another name now, or has lost its "
            "state folder, start this one once with --take-over."
        )


class TopicOwnership:
    """The owner of each topic, by the claims that were read."""

    def __init__(self) -> None:
        self._claims: dict[bytes, OwnershipClaim] = {}

    def apply_claims(self, records: Sequence[ConsumerRecord]) -> None:
        """Apply claims and withdrawals, in their order."""
        for record in records:
            if record.key is None:
                continue
            if record.value is None:
                self._claims.pop(record.key, None)
            elif (claim := _parse_claim(record.value)) is not None:
                self._claims.setdefault(record.key, claim)

    def current_owner(self, topic: str) -> tuple[TopicOwner | None, int]:
        """The owner of a topic and its epoch; 0 where there is none."""
        current: tuple[TopicOwner | None, int] = (None, 0)
        for claim in self._claims.values():
            if claim.topics.get(topic, 0) > current[1]:
                current = claim.owner, claim.topics[topic]
        return current

    def topics_of_others(self, owner: TopicOwner, topics: Collection[str]) -> dict[str, TopicOwner]:
        """The topics that other apps own."""
        current_owners = {topic: self.current_owner(topic)[0] for topic in topics}
        return {
            topic: current
            for topic, current in current_owners.items()
            if current is not None and not current.is_same(owner)
        }

    def missing_claims(self, owner: TopicOwner, topics: Collection[str]) -> dict[str, int]:
        """The topics that an app does not own, with the epoch that a claim of each needs."""
        current_owners = {topic: self.current_owner(topic) for topic in topics}
        return {
            topic: epoch + 1
            for topic, (current, epoch) in current_owners.items()
            if current is None or not current.is_same(owner)
        }


def _parse_claim(value: bytes) -> OwnershipClaim | None:
    """The claim of a record; None for an invalid one, since any client may write to the topic."""
    try:
        fields = orjson.loads(value)
        owner = TopicOwner(str(fields["id"]), str(fields["app"]), str(fields["host"]), int(fields["since_us"]))
        return OwnershipClaim(owner, {str(topic): int(epoch) for topic, epoch in fields["topics"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_ownership(broker: str) -> TopicOwnership:
    """All current claims."""
    ensure_compacted_topic(broker, OWNERS_TOPIC)
    ownership = TopicOwnership()
    with TailingConsumer(broker, [OWNERS_TOPIC], ownership.apply_claims) as consumer:
        if not consumer.wait_until_caught_up(READ_TIMEOUT_SECONDS):
            raise OwnersUnavailable(consumer.error)
    return ownership


def require_no_other_owner(broker: str, owner: TopicOwner, topics: Collection[str]) -> None:
    """Reject topics that another app owns; writes nothing, not even the topic of claims."""
    if has_topic(broker, OWNERS_TOPIC) and (owned_by_others := read_ownership(broker).topics_of_others(owner, topics)):
        raise OwnershipConflictError(owned_by_others)


def claim_topics(broker: str, owner: TopicOwner, topics: Collection[str], *, take_over: bool = False) -> None:
    """Own topics from now on, including those owned already; rejects what another app owns, without a take-over."""
    ownership = read_ownership(broker)
    owned_by_others = ownership.topics_of_others(owner, topics)
    if owned_by_others and not take_over:
        raise OwnershipConflictError(owned_by_others)
    missing_claims = ownership.missing_claims(owner, topics)
    if not missing_claims:
        return
    key = f"{owner.id} {uuid4().hex}"
    claim = asdict(owner) | {"since_us": time.time_ns() // 1000, "topics": missing_claims}
    with Producer(broker) as producer:
        producer.send(OWNERS_TOPIC, orjson.dumps(claim), key=key)
    lost_topics = read_ownership(broker).topics_of_others(owner, missing_claims)
    if lost_topics:
        with Producer(broker) as producer:
            producer.send(OWNERS_TOPIC, None, key=key)
        raise OwnershipConflictError(lost_topics)


@contextmanager
def hold_topics(broker: str, owner: TopicOwner, topics: Collection[str], on_lost: Callable[[], None]) -> Iterator[None]:
    """Call `on_lost` once another app takes one of these topics over, and raise the error that says so."""
    watch = _OwnershipWatch(owner, topics, on_lost)
    with TailingConsumer(broker, [OWNERS_TOPIC], watch.apply_claims, is_latency_tolerant=True) as consumer:
        if not consumer.wait_until_caught_up(READ_TIMEOUT_SECONDS):
            raise OwnersUnavailable(consumer.error)
        watch.start_comparing()
        yield
    if watch.lost:
        raise OwnershipConflictError(watch.lost)


class _OwnershipWatch:
    """Compares the owners of topics with an owner, once all earlier claims have been read."""

    def __init__(self, owner: TopicOwner, topics: Collection[str], on_lost: Callable[[], None]) -> None:
        self.lost: dict[str, TopicOwner] = {}
        self._owner, self._topics, self._on_lost = owner, topics, on_lost
        self._ownership, self._has_begun, self._lock = TopicOwnership(), False, threading.Lock()

    def apply_claims(self, records: Sequence[ConsumerRecord]) -> None:
        with self._lock:
            self._ownership.apply_claims(records)
            self._compare()

    def start_comparing(self) -> None:
        with self._lock:
            self._has_begun = True
            self._compare()

    def _compare(self) -> None:
        if self._has_begun and not self.lost:
            self.lost = self._ownership.topics_of_others(self._owner, self._topics)
            if self.lost:
                self._on_lost()
