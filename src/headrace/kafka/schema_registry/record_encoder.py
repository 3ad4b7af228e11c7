"""Encodes events in the registry's wire format: each with the id of its schema."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.avro import AvroField, parse_record_schema, to_avro_name, to_avro_schema
from headrace.kafka.schema_registry.registry_client import (
    SchemaDefinition,
    SchemaRegistryClient,
    create_registry_client,
)
from headrace.kafka.schema_registry.wire_format import frame_payload
from headrace.tiles.events.event_parser import InvalidEventError, parse_event
from headrace.tiles.finish import to_datetime

PayloadFramer = Callable[[bytes], bytes]


class EventEncodingError(InvalidEventError):
    """An event that does not match its schema."""


@dataclass(frozen=True)
class AvroEncoder:
    """Encodes events with one registered schema."""

    schema_id: int
    parsed_schema: Any

    def encode(self, event: Mapping[str, Any]) -> bytes:
        """Encode an event; times are datetimes, or numbers in the unit of their field."""
        buffer = BytesIO()
        try:
            schemaless_writer(buffer, self.parsed_schema, event)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError, IndexError) as error:
            raise EventEncodingError(f"wrong-type: {type(error).__name__} {error}") from error
        return frame_payload(self.schema_id, buffer.getvalue())


def register_encoder(registry: SchemaRegistryClient, subject: str, text: str) -> AvroEncoder:
    """Register a schema, or find it registered, and create its encoder."""
    return create_avro_encoder(registry.register_schema(subject, "AVRO", text), text)


def create_avro_encoder(schema_id: int, text: str) -> AvroEncoder:
    """Create the encoder of a registered schema."""
    return AvroEncoder(schema_id, parse_schema(json.loads(text)))


def create_framer(stream: Stream) -> PayloadFramer:
    """Create the encoder of a stream's JSON events for its topic.

    With a registry it uses the newest version of the subject; without one, in Avro, it registers the declared columns
    as the first version.
    """
    if stream.encoding is None:
        return lambda value: value
    registry = create_registry_client(stream.encoding.registry)
    latest = registry.get_latest_version(stream.encoding.subject)
    match stream.encoding.format:
        case "avro":
            return _create_avro_framer(
                stream, _register_first_version(stream, registry) if latest is None else latest.schema
            )
        case "json" if latest is not None:
            schema_id = latest.schema.id
            return lambda value: frame_payload(schema_id, value)
    raise EventEncodingError(
        f"Stream {stream.name!r}: Headrace does not write {stream.encoding.format} for {stream.encoding.subject!r}. "
        "Register a JSON Schema first, write Avro, or send its events with a client of your own."
    )


def _register_first_version(stream: Stream, registry: SchemaRegistryClient) -> SchemaDefinition:
    assert stream.encoding is not None  # noqa: S101  # only such streams have subjects
    text = to_avro_schema(stream.schema, stream.required_columns.values(), to_avro_name(stream.name))
    return SchemaDefinition(registry.register_schema(stream.encoding.subject, "AVRO", text), "AVRO", text)


def _create_avro_framer(stream: Stream, schema: SchemaDefinition) -> PayloadFramer:
    encoder, record = create_avro_encoder(schema.id, schema.text), parse_record_schema(schema.text)
    time_columns = {column.name for column in stream.schema if column.kind is Kind.TIMESTAMP}

    def frame_as_avro(value: bytes) -> bytes:
        event = parse_event(stream.schema, value)
        fields = {name: field for name, field in record.fields.items() if event.get(name) is not None}
        values = {
            name: _to_avro_time(field, event[name]) if name in time_columns else event[name]
            for name, field in fields.items()
        }
        return encoder.encode(values)

    return frame_as_avro


def _to_avro_time(field: AvroField, time_us: int) -> Any:
    """A time as the value of a field."""
    match field.conversions.get("timestamp"):
        case "micros":
            return time_us
        case "millis":
            return time_us // 1000
        case "nanos":
            return time_us * 1000
    return to_datetime(time_us).isoformat()
