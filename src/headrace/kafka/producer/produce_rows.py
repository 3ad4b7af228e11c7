"""`hr.produce(payments, rows)`: sends the rows of a stream to its topic if all of them are valid, else none.

rows ──▶ each encoded and read again as the gate reads ──▶ sent, acknowledged by all replicas ──▶ their offsets
   └ one that is invalid: an error that names row and column, and nothing is sent
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.producer.event_encoder import EventEncoder, create_event_encoder
from headrace.kafka.producer.producer import DeliveryCallback, Producer
from headrace.kafka.topics import max_record_bytes
from headrace.tiles.events.event_json import EventRow, require_row, row_to_json
from headrace.tiles.events.event_parser import Event, InvalidEventError

DEFAULT_BROKER = "127.0.0.1:9092"
RECORD_OVERHEAD_BYTES = 1024  # added to a record's bytes by the log
_producers: dict[tuple[int, str], Producer] = {}  # by process, since a fork cannot use its parent's
_producers_lock = threading.Lock()


class InvalidRowError(HeadraceError):
    """A row that is not a valid event of its stream."""

    def __init__(self, stream: Stream, row_number: int, reason: object) -> None:
        super().__init__(
            f"{stream.name}: row {row_number}: {reason}. Nothing was sent. Fix the row, then send them all."
        )
        self.row_number = row_number


class RecordMetadata(NamedTuple):
    """The location of a row in the log."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class EncodedRow(NamedTuple):
    """A row as it is sent."""

    key: str
    value: bytes


def produce(stream: Stream, rows: Iterable[EventRow], *, broker: str | None = None) -> list[RecordMetadata]:
    """Send rows to a stream, in order, wait until all replicas have them, and return the location of each.

    Each row has the columns of the schema: text, numbers, booleans, datetimes. Without `broker=` it is the one in
    HEADRACE_BROKER, else the one that `headrace up` starts on this machine.

    After an error, rows may be sent again: readers of the stream deduplicate by id.
    """
    address = broker or os.environ.get("HEADRACE_BROKER") or DEFAULT_BROKER
    encoded_rows = list(encode_rows(stream, rows))
    _require_fitting_size(stream, encoded_rows, max_record_bytes(address, stream.name))
    metadata: list[RecordMetadata | None] = [None] * len(encoded_rows)
    with _shared_producer(address) as producer:
        for number, row in enumerate(encoded_rows):
            producer.send(
                stream.name, row.value, key=row.key, on_delivery=_delivery_callback(metadata, number, stream.name)
            )
    return [record_metadata for record_metadata in metadata if record_metadata is not None]


@contextmanager
def _shared_producer(broker: str) -> Iterator[Producer]:
    """The producer of this process, for one caller at a time: a new one takes most of a second to start."""
    with _producers_lock:
        producer = _producers.pop((os.getpid(), broker), None) or Producer(broker, linger_ms=1)
        yield producer
        producer.flush()
        _producers[os.getpid(), broker] = producer


def encode_rows(stream: Stream, rows: Iterable[EventRow]) -> Iterator[EncodedRow]:
    """Encode rows; the first invalid one is an error."""
    encoder = create_event_encoder(stream)
    for number, row in enumerate(rows):
        try:
            yield _encode_row(stream, encoder, row)
        except InvalidEventError as error:
            raise InvalidRowError(stream, number, error) from error


def event_key(stream: Stream, event: Event) -> str:
    """The record key of an event: the text of its key column."""
    return key_text(event[stream.key])


def _encode_row(stream: Stream, encoder: EventEncoder, row: object) -> EncodedRow:
    value, event = encoder.encode(row_to_json(stream.schema, require_row(stream.schema, row)))
    return EncodedRow(event_key(stream, event), value)


def _require_fitting_size(stream: Stream, encoded_rows: list[EncodedRow], max_bytes: int) -> None:
    for number, row in enumerate(encoded_rows):
        size = len(row.key.encode()) + len(row.value) + RECORD_OVERHEAD_BYTES
        if size > max_bytes:
            raise InvalidRowError(stream, number, f"it has {size} bytes, and the topic takes {max_bytes}")


def _delivery_callback(metadata: list[RecordMetadata | None], number: int, topic: str) -> DeliveryCallback:
    def store_metadata(partition: int, offset: int) -> None:
        metadata[number] = RecordMetadata(topic, partition, offset)

    return store_metadata
