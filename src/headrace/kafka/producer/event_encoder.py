"""How the events of a stream are written: the one place where a stream's encoding is chosen.

row ──written──▶ JSON ──read as the gate reads──▶ fit? ──▶ JSON as it stands, or Avro by a registered schema
                                                   └ no: what the gate would say of it
"""

from typing import Protocol

from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry.record_encoder import EventEncodingError, PayloadFramer, create_framer
from headrace.tiles.events.event_parser import Event, InvalidEventError, parse_event
from headrace.tiles.events.record_classification import find_failed_checks


class EventEncoder(Protocol):
    """Writes events of one stream."""

    def encode(self, event_json: bytes) -> tuple[bytes, Event]:
        """An event in JSON as the log takes it, and as the gate will read it; raises `Unreadable` where it cannot."""


class UnsupportedEncodingError(HeadraceError):
    """A stream whose events Headrace reads and does not write."""


def create_event_encoder(stream: Stream) -> EventEncoder:
    """Who writes the events of a stream; where a registry has its schemas, it is asked for the newest."""
    json_encoder = JsonEventEncoder(stream)
    if stream.encoding is None:
        return json_encoder
    try:
        return RegistryEventEncoder(json_encoder, create_framer(stream))
    except EventEncodingError as error:
        raise UnsupportedEncodingError(str(error)) from error


class JsonEventEncoder:
    """Lets JSON stand as it is, once it was read as the gate does: what that would refuse is refused here."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def encode(self, event_json: bytes) -> tuple[bytes, Event]:
        event = parse_event(self._stream.schema, event_json)
        require_valid_event(self._stream, event)
        return event_json, event


class RegistryEventEncoder:
    """Writes events as their stream's registry has them, once they are fit."""

    def __init__(self, json_encoder: EventEncoder, frame_payload: PayloadFramer) -> None:
        self._json_encoder, self._frame_payload = json_encoder, frame_payload

    def encode(self, event_json: bytes) -> tuple[bytes, Event]:
        value, event = self._json_encoder.encode(event_json)
        return self._frame_payload(value), event


def require_valid_event(stream: Stream, event: Event) -> None:
    """Refuse an event that the gate would, whenever it came; what is late, or too far ahead, is for the gate to say."""
    for part, column in stream.required_columns.items():
        if event[column] is None:
            raise InvalidEventError(f"missing-{part}: column {column} is absent or null")
    if find_failed_checks(stream, [event])[0]:
        raise InvalidEventError(f"failed-check: {stream.check}")
