"""Encodes the events of a stream: the only place where a stream's encoding is chosen.

row ──written──▶ JSON ──read as the gate reads──▶ valid? ──▶ JSON unchanged, or Avro by a registered schema
                                                      └ no: the gate's reason
"""

from typing import Protocol

from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.record_encoder import EventEncodingError, PayloadFramer, create_framer
from headrace.tiles.events.event_parser import Event, InvalidEventError, parse_event
from headrace.tiles.events.record_classification import find_failed_checks


class EventEncoder(Protocol):
    """Encodes events of one stream."""

    def encode(self, event_json: bytes) -> tuple[bytes, Event]:
        """An event in JSON as its record value, and as the gate will read it; raises InvalidEventError if invalid."""


class UnsupportedEncodingError(HeadraceError):
    """A stream whose encoding Headrace reads but does not write."""


def create_event_encoder(stream: Stream) -> EventEncoder:
    """Create the encoder of a stream; with a registry it uses the newest schema."""
    json_encoder = JsonEventEncoder(stream)
    if stream.encoding is None:
        return json_encoder
    try:
        return RegistryEventEncoder(json_encoder, create_framer(stream))
    except EventEncodingError as error:
        raise UnsupportedEncodingError(str(error)) from error


class JsonEventEncoder:
    """Leaves JSON unchanged after reading it as the gate does: what the gate would reject is rejected here."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def encode(self, event_json: bytes) -> tuple[bytes, Event]:
        event = parse_event(self._stream.schema, event_json)
        require_valid_event(self._stream, event)
        return event_json, event


class RegistryEventEncoder:
    """Encodes valid events with the newest schema of their stream's registry."""

    def __init__(self, json_encoder: EventEncoder, frame_payload: PayloadFramer) -> None:
        self._json_encoder, self._frame_payload = json_encoder, frame_payload

    def encode(self, event_json: bytes) -> tuple[bytes, Event]:
        value, event = self._json_encoder.encode(event_json)
        return self._frame_payload(value), event


def require_valid_event(stream: Stream, event: Event) -> None:
    """Reject an event that the gate would, whenever it arrives; lateness and future times are the gate's to judge."""
    for part, column in stream.required_columns.items():
        if event[column] is None:
            raise InvalidEventError(f"missing-{part}: column {column} is absent or null")
    if find_failed_checks(stream, [event])[0]:
        raise InvalidEventError(f"failed-check: {stream.check}")
