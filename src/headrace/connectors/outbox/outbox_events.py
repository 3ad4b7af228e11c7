"""Encodes outbox rows as records, and rejects rows that can never be sent."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from headrace.connectors.outbox.outbox_table import PendingOutboxRow
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.headers import ID_HEADER, WrittenHeader
from headrace.kafka.producer.event_encoder import EventEncoder, UnsupportedEncodingError, create_event_encoder
from headrace.kafka.producer.produce_rows import RECORD_OVERHEAD_BYTES, event_key
from headrace.tiles.events.event_parser import InvalidEventError

TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,249}")


class InvalidOutboxRowError(HeadraceError):
    """A row that can never be sent as it is; the message is the reason it is parked for."""


class OutboxEvent(NamedTuple):
    """An encoded row."""

    row: PendingOutboxRow
    value: bytes

    @property
    def headers(self) -> list[WrittenHeader]:
        """The headers of the record: the row's id, by which a reader of any topic recognizes duplicates."""
        return [ID_HEADER.write(self.row.id)]


class OutboxEventEncoder:
    """Encodes rows: of declared streams in the stream's format; of other topics, the payload unchanged."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams_by_name = dict(streams)
        self._encoders_by_stream: dict[str, EventEncoder] = {}

    def encode_row(self, row: PendingOutboxRow, max_bytes: int) -> OutboxEvent:
        """The record of a row; rejects one that does not fit its stream or its topic's record size."""
        if not TOPIC_PATTERN.fullmatch(row.stream):
            raise InvalidOutboxRowError(f"no-topic: {row.stream!r:.80} is not a topic name")
        value = self._encode_payload(row)
        size = len(value) + len(row.key.encode()) + len(row.id.encode()) + RECORD_OVERHEAD_BYTES
        if size > max_bytes:
            raise InvalidOutboxRowError(f"too-large: {size} bytes, and the topic accepts {max_bytes}")
        return OutboxEvent(row, value)

    def _encode_payload(self, row: PendingOutboxRow) -> bytes:
        stream = self._streams_by_name.get(row.stream)
        if stream is None:
            return row.payload.encode()
        try:
            value, event = self._stream_encoder(stream).encode(row.payload.encode())
        except InvalidEventError as error:
            raise InvalidOutboxRowError(str(error)) from error
        if event_key(stream, event) != row.key:
            raise InvalidOutboxRowError(
                f"wrong-key: key is {row.key!r:.80}, and column {stream.key} {event_key(stream, event)!r:.80}"
            )
        return value

    def _stream_encoder(self, stream: Stream) -> EventEncoder:
        """The encoder of a stream: created on first use, since the relay waits for a registry that is unavailable."""
        if stream.name not in self._encoders_by_stream:
            try:
                self._encoders_by_stream[stream.name] = create_event_encoder(stream)
            except UnsupportedEncodingError as error:
                raise InvalidOutboxRowError(f"not-written: {error}") from error
        return self._encoders_by_stream[stream.name]
