"""Letters: what was refused on its way, sent again once each when the cause is gone, or put away.

payments.dead ──▶ a letter, named by its place in the raw log ──▶ payments, with that place as a header
                    └──▶ payments.dead.done    going ─▶ replayed, or discarded: the latest word under each place counts
SINK.parked ────▶ a letter, named by its place in what is sunk ──▶ SINK.again

Whoever dies between "going" and "replayed" has sent it or not: the raw log itself says which, from where it ended then.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import orjson

from headrace.declare.sink import Sink
from headrace.declare.stream import Stream
from headrace.declare.sunk import order_of
from headrace.errors import HeadraceError
from headrace.log.between import records_between
from headrace.log.latest import ensure_latest_topic
from headrace.log.ledger import ARRIVAL, OFFSET, TOPIC, code_of, reason_of
from headrace.log.offsets import Offsets
from headrace.log.places import records_at
from headrace.log.produce import Producer
from headrace.log.records import Headers, Partition, Record
from headrace.log.tail import Tail

PLACE = "headrace.replays"
ORIGIN = "headrace.origin"
AT_ONCE = 500
ALL = 10**9
BUSY_US = 60_000_000  # so long somebody who has begun is believed to be at work

Word = Literal["open", "going", "replayed", "discarded"]


class Busy(HeadraceError):
    """Somebody else sends letters of the same stream."""


class Box(NamedTuple):
    """Letters of one kind: of what, in which topic, where they are sent again, and which column is then their key."""

    of: str
    topic: str
    again: str
    key: str


def dead_of(stream: Stream) -> Box:
    """What the gate of a stream refused."""
    return Box(stream.name, stream.dead, stream.name, stream.key)


def parked_of(sink: Sink) -> Box:
    """What the target of a sink refused."""
    return Box(sink.name, sink.parked, sink.again, order_of(sink.of))


class Letter(NamedTuple):
    """A record that was refused: where it stood, when it arrived, why, and its bytes.

    `origin` is the place it first had, where it has been sent again since.
    """

    place: str
    partition: int
    arrived_us: int
    reason: str
    key: bytes | None
    value: bytes | None
    origin: bytes | None = None

    @property
    def code(self) -> str:
        return code_of(self.reason)

    @property
    def record(self) -> tuple[Partition, int]:
        """The record that was refused: its partition and its offset."""
        partition, _, offset = self.place.rpartition("@")
        return Partition(partition.rpartition("-")[0], self.partition), int(offset)


class Deed(NamedTuple):
    """What was done with a letter, when, and where the partitions of the raw log ended then."""

    word: Word
    at_us: int
    ends: Mapping[str, int]


class Letters:
    """The letters of one box."""

    def __init__(self, broker: str, box: Box) -> None:
        self._broker, self._box = broker, box
        self._done = f"{box.topic}.done"
        self._offsets = Offsets(broker)

    def all(self) -> Iterator[Letter]:
        """Every letter the log still has, each partition's in order; what was written again is passed over."""
        last: dict[tuple[bytes | None, int], int] = {}
        for record in Tail(self._broker, self._box.topic, ALL).news():
            stood, offset = (record.header(TOPIC), record.partition), int(record.header(OFFSET) or -1)
            if offset > last.get(stood, -1):
                last[stood] = offset
                yield self._letter(record, offset)

    def words(self) -> dict[str, Word]:
        """The latest word on letters, by their places; on those it does not name nothing was done."""
        return {place: deed.word for place, deed in self._deeds().items()}

    def headers(self, letters: Iterable[Letter]) -> dict[str, Headers]:
        """What producers gave with letters, by their places, as far as the raw log still has those very records."""
        by_place = {letter.place: letter for letter in letters}
        raw = records_at(self._broker, [letter.record for letter in by_place.values()])
        return {one.place: one.headers or [] for one in raw if one.value == by_place[one.place].value}

    def replay(self, letters: Iterable[Letter], mended: Mapping[str, bytes]) -> int:
        """Send letters again, those that are mended with their new value, each once ever; how many went."""
        count, waiting = 0, self._open(letters)
        with Producer(self._broker) as producer:
            while some := list(islice(waiting, AT_ONCE)):
                self._send(producer, some, mended)
                count += len(some)
        return count

    def discard(self, letters: Iterable[Letter]) -> int:
        """Put letters away: they are open no more, and stay in their topic as long as it keeps them; how many were."""
        places = [letter.place for letter in self._open(letters)]
        with Producer(self._broker) as producer:
            self._write(producer, places, "discarded")
        return len(places)

    def _open(self, letters: Iterable[Letter]) -> Iterator[Letter]:
        """Those nobody has dealt with, once it is known of all."""
        ensure_latest_topic(self._broker, self._done)
        self._settle_begun()
        words = self.words()
        return (letter for letter in letters if words.get(letter.place, "open") == "open")

    def _send(self, producer: Producer, letters: Sequence[Letter], mended: Mapping[str, bytes]) -> None:
        """Each step is in the log before the next begins."""
        places = [letter.place for letter in letters]
        self._write(producer, places, "going")
        for letter in letters:
            self._send_one(producer, letter, mended.get(letter.place))
        producer.flush()
        self._write(producer, places, "replayed")

    def _send_one(self, producer: Producer, letter: Letter, mended: bytes | None) -> None:
        if mended is None:
            value, key, partition = letter.value, letter.key, letter.partition
        else:
            value, key, partition = mended, _key_in(mended, self._box.key) or letter.key, -1
        origin = [] if letter.origin is None else [(ORIGIN, letter.origin)]
        producer.send(self._box.again, value, key=key, partition=partition, headers=[(PLACE, letter.place), *origin])

    def _write(self, producer: Producer, places: Iterable[str], word: Word) -> None:
        ends = {str(partition.number): end for partition, end in self._offsets.end([self._box.again]).items()}
        said = orjson.dumps(Deed(word, time.time_ns() // 1000, ends)._asdict())
        for place in places:
            producer.send(self._done, said, key=place)
        producer.flush()

    def _settle_begun(self) -> None:
        """Of what somebody had begun: what the raw log has was sent, what it has not is open again."""
        going = {place: deed for place, deed in self._deeds().items() if deed.word == "going"}
        if not going:
            return
        if max(deed.at_us for deed in going.values()) > time.time_ns() // 1000 - BUSY_US:
            raise Busy(f"Somebody sends letters of {self._box.of!r}. Wait a minute, then try again.")
        sent = going.keys() & set(self._sent_since(list(going.values())))
        with Producer(self._broker) as producer:
            self._write(producer, sent, "replayed")
            self._write(producer, going.keys() - sent, "open")

    def _sent_since(self, begun: Sequence[Deed]) -> Iterator[str]:
        """The places of letters that the raw log has, from where it ended when the first was begun."""
        ends = self._offsets.end([self._box.again])
        begins = {
            partition: max(begin, min(deed.ends.get(str(partition.number), 0) for deed in begun))
            for partition, begin in self._offsets.begin_of(ends).items()
        }
        for record in records_between(self._broker, begins, ends):
            place = record.header(PLACE)
            if place is not None:
                yield place.decode()

    def _deeds(self) -> dict[str, Deed]:
        written = Tail(self._broker, self._done, ALL).news()
        return {(record.key or b"").decode(): Deed(**orjson.loads(record.value or b"")) for record in written}

    def _letter(self, record: Record, offset: int) -> Letter:
        arrived_us = int(record.header(ARRIVAL) or record.appended_us)
        topic = (record.header(TOPIC) or self._box.again.encode()).decode()
        place = f"{topic}-{record.partition}@{offset}"
        content = record.key, record.value, record.header(ORIGIN)
        return Letter(place, record.partition, arrived_us, reason_of(record), *content)


def _key_in(value: bytes, column: str) -> bytes | None:
    """The text of the key in a mended event, where it has one."""
    try:
        event = orjson.loads(value)
    except ValueError:
        return None
    key = event.get(column) if isinstance(event, dict) else None
    return None if key is None else str(key).encode()
