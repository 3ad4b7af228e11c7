"""`hr.produce(payments, rows)`: rows of a stream sent to its topic, all of them fit, or none of them sent.

rows ──▶ each written and read again as the gate reads ──▶ sent, acknowledged by all replicas ──▶ where they landed
              └ one that does not fit: an error that names row and column, and nothing is sent
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.encode import Encoder, encoder_of
from headrace.log.produce import Note, Producer
from headrace.log.topics import largest_record
from headrace.tiles.event_json import Row, json_of, require_row
from headrace.tiles.events import Event, Unreadable
from headrace.tiles.frequent import key_text

USUAL_BROKER = "127.0.0.1:9092"
ROOM = 1024  # of a record's bytes, for what the log adds
_producers: dict[tuple[int, str], Producer] = {}  # by process: what was forked has none
_turn = threading.Lock()


class UnfitRow(HeadraceError):
    """A row that is no event of its stream."""

    def __init__(self, stream: Stream, number: int, why: object) -> None:
        super().__init__(f"{stream.name}: row {number}: {why}. Nothing was sent. Mend the row, then send them all.")
        self.number = number


class Landed(NamedTuple):
    """Where a row is in the log."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class Ready(NamedTuple):
    """A row as it is sent."""

    key: str
    value: bytes


def produce(stream: Stream, rows: Iterable[Row], *, broker: str | None = None) -> list[Landed]:
    """Send rows to a stream, in order, and wait until all replicas have them; tells where each landed.

    Each row has the columns of the schema: text, numbers, booleans, datetimes. Without `broker=` it is the one in
    HEADRACE_BROKER, else the one that `headrace up` starts on this machine.

    Rows that were sent and not acknowledged may be sent again: who reads the stream takes each id once.
    """
    address = broker or os.environ.get("HEADRACE_BROKER") or USUAL_BROKER
    ready = list(readied(stream, rows))
    _require_room(stream, ready, largest_record(address, stream.name))
    landed: list[Landed | None] = [None] * len(ready)
    with _kept(address) as producer:
        for number, row in enumerate(ready):
            producer.send(stream.name, row.value, key=row.key, landed=_noting(landed, number, stream.name))
    return [place for place in landed if place is not None]


@contextmanager
def _kept(broker: str) -> Iterator[Producer]:
    """The producer of this process, one caller at a time: a new one takes most of a second to begin."""
    with _turn:
        producer = _producers.pop((os.getpid(), broker), None) or Producer(broker, linger_ms=1)
        yield producer
        producer.flush()
        _producers[os.getpid(), broker] = producer


def readied(stream: Stream, rows: Iterable[Row]) -> Iterator[Ready]:
    """Rows as they are sent; the first that does not fit is an error."""
    encoder = encoder_of(stream)
    for number, row in enumerate(rows):
        try:
            yield _readied(stream, encoder, row)
        except Unreadable as why:
            raise UnfitRow(stream, number, why) from why


def key_of(stream: Stream, event: Event) -> str:
    """The key that an event has in the log: the text of its key column."""
    return key_text(event[stream.key])


def _readied(stream: Stream, encoder: Encoder, row: object) -> Ready:
    value, event = encoder.encode(json_of(stream.schema, require_row(stream.schema, row)))
    return Ready(key_of(stream, event), value)


def _require_room(stream: Stream, ready: list[Ready], largest: int) -> None:
    for number, row in enumerate(ready):
        size = len(row.key.encode()) + len(row.value) + ROOM
        if size > largest:
            raise UnfitRow(stream, number, f"it has {size} bytes, and the topic takes {largest}")


def _noting(landed: list[Landed | None], number: int, topic: str) -> Note:
    def note(partition: int, offset: int) -> None:
        landed[number] = Landed(topic, partition, offset)

    return note
