"""Which app writes which topic: one record a claim in `headrace.owners`.

offset 0   app A   payments.clean: epoch 1                          A holds it
offset 1   app B   payments.clean: epoch 1, refunds.clean: epoch 1  too late for payments.clean: B withdraws, and ends
offset 2   app B   payments.clean: epoch 2                          B takes it over; A reads that, and stops

Of several claims with the same epoch the first in the log counts. A claim is one record, so of two apps that start at
the same moment one gets everything they both want. Keys are unique: compaction never removes a claim that counts.
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
from headrace.log.follow import Follower
from headrace.log.latest import ensure_latest_topic, has_topic
from headrace.log.produce import Producer
from headrace.log.records import Record

TOPIC = "headrace.owners"
READ_SECONDS = 60.0
MOST_NAMED = 3


@dataclass(frozen=True)
class Owner:
    """An app that writes topics: `id` is that of its state folder, which has its checkpoints."""

    id: str
    app: str
    host: str = ""
    since_us: int = 0

    def is_same(self, other: "Owner") -> bool:
        """Whether two are one app with one state folder."""
        return (self.id, self.app) == (other.id, other.app)


@dataclass(frozen=True)
class Claim:
    """An owner's word that it writes these topics, each with an epoch: a greater one takes a topic over."""

    owner: Owner
    topics: Mapping[str, int]


class OwnersUnread(HeadraceError):
    """The records of owners were not read in time."""

    def __init__(self, trouble: str) -> None:
        super().__init__(f"Topic {TOPIC!r} was not read within {READ_SECONDS:g} s: {trouble}. Try again.")


class OwnedByOther(HeadraceError):
    """Topics that another app writes."""

    def __init__(self, held: Mapping[str, Owner]) -> None:
        owner, topics = next(iter(held.values())), list(held)
        named = ", ".join(map(repr, topics[:MOST_NAMED]))
        more = f" and {len(topics) - MOST_NAMED} more" if len(topics) > MOST_NAMED else ""
        since = datetime.fromtimestamp(owner.since_us / 1_000_000, UTC).isoformat(timespec="seconds")
        super().__init__(
            f"{named}{more} belong to the app {owner.app!r} on {owner.host or 'another host'} since {since} "
            f"(its state folder is {owner.id}). Two apps that write one topic count every event twice. "
            "Stop that app, or rename what both declare. If that app is gone, has another name now, or has lost its "
            "state folder, start this one once with --take-over."
        )


class Owners:
    """Who holds which topic, as the claims that were read say."""

    def __init__(self) -> None:
        self._claims: dict[bytes, Claim] = {}

    def apply(self, records: Sequence[Record]) -> None:
        """Take note of claims, in their order, and of those that were withdrawn."""
        for record in records:
            if record.key is None:
                continue
            if record.value is None:
                self._claims.pop(record.key, None)
            elif (claim := _claim_of(record.value)) is not None:
                self._claims.setdefault(record.key, claim)

    def holder(self, topic: str) -> tuple[Owner | None, int]:
        """Who holds a topic, and with which epoch; 0 where nobody does."""
        found: tuple[Owner | None, int] = (None, 0)
        for claim in self._claims.values():
            if claim.topics.get(topic, 0) > found[1]:
                found = claim.owner, claim.topics[topic]
        return found

    def held_by_others(self, owner: Owner, topics: Collection[str]) -> dict[str, Owner]:
        """The topics that other apps hold."""
        holders = {topic: self.holder(topic)[0] for topic in topics}
        return {topic: one for topic, one in holders.items() if one is not None and not one.is_same(owner)}

    def unclaimed(self, owner: Owner, topics: Collection[str]) -> dict[str, int]:
        """The topics that an app does not hold, with the epoch that a claim of each needs."""
        found = {topic: self.holder(topic) for topic in topics}
        return {
            topic: epoch + 1 for topic, (holder, epoch) in found.items() if holder is None or not holder.is_same(owner)
        }


def _claim_of(value: bytes) -> Claim | None:
    """What a record says; None of one that says something else, for anybody may write to a topic."""
    try:
        said = orjson.loads(value)
        owner = Owner(str(said["id"]), str(said["app"]), str(said["host"]), int(said["since_us"]))
        return Claim(owner, {str(topic): int(epoch) for topic, epoch in said["topics"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_owners(broker: str) -> Owners:
    """All claims that there are now."""
    ensure_latest_topic(broker, TOPIC)
    owners = Owners()
    with Follower(broker, [TOPIC], owners.apply) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise OwnersUnread(follower.trouble)
    return owners


def require_unowned(broker: str, owner: Owner, topics: Collection[str]) -> None:
    """Refuse topics that another app holds; nothing is written, not even the topic of claims."""
    if has_topic(broker, TOPIC) and (held := read_owners(broker).held_by_others(owner, topics)):
        raise OwnedByOther(held)


def claim_topics(broker: str, owner: Owner, topics: Collection[str], *, take_over: bool = False) -> None:
    """Hold topics from now on, those held already included; refuses what another app holds, but for a take-over."""
    owners = read_owners(broker)
    held = owners.held_by_others(owner, topics)
    if held and not take_over:
        raise OwnedByOther(held)
    wanted = owners.unclaimed(owner, topics)
    if not wanted:
        return
    key = f"{owner.id} {uuid4().hex}"
    said = asdict(owner) | {"since_us": time.time_ns() // 1000, "topics": wanted}
    with Producer(broker) as producer:
        producer.send(TOPIC, orjson.dumps(said), key=key)
    lost = read_owners(broker).held_by_others(owner, wanted)
    if lost:
        with Producer(broker) as producer:
            producer.send(TOPIC, None, key=key)
        raise OwnedByOther(lost)


@contextmanager
def held_while(broker: str, owner: Owner, topics: Collection[str], lose: Callable[[], None]) -> Iterator[None]:
    """Call `lose` once another app takes one of these topics over, and end with the error that says so."""
    watch = _Watch(owner, topics, lose)
    with Follower(broker, [TOPIC], watch.apply, patient=True) as follower:
        if not follower.wait_until_caught_up(READ_SECONDS):
            raise OwnersUnread(follower.trouble)
        watch.begin()
        yield
    if watch.lost:
        raise OwnedByOther(watch.lost)


class _Watch:
    """Compares the holders of topics with an owner, once all earlier claims have been read."""

    def __init__(self, owner: Owner, topics: Collection[str], lose: Callable[[], None]) -> None:
        self.lost: dict[str, Owner] = {}
        self._owner, self._topics, self._lose = owner, topics, lose
        self._owners, self._has_begun, self._lock = Owners(), False, threading.Lock()

    def apply(self, records: Sequence[Record]) -> None:
        with self._lock:
            self._owners.apply(records)
            self._compare()

    def begin(self) -> None:
        with self._lock:
            self._has_begun = True
            self._compare()

    def _compare(self) -> None:
        if self._has_begun and not self.lost:
            self.lost = self._owners.held_by_others(self._owner, self._topics)
            if self.lost:
                self._lose()
