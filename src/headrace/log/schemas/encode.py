"""Events written as a registry's clients write them: each with the id its schema was registered under."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from headrace.declare.schema import Kind
from headrace.declare.stream import Stream
from headrace.log.schemas.avro import AvroField, record_name, record_of, schema_text
from headrace.log.schemas.registry import Registered, Registry, registry_at
from headrace.log.schemas.wire import framed
from headrace.tiles.events import Unreadable, read_event
from headrace.tiles.finish import moment

Frame = Callable[[bytes], bytes]


class Unwritable(Unreadable):
    """An event that its schema does not hold."""


@dataclass(frozen=True)
class AvroEncoder:
    """Writes events of one registered schema."""

    schema_id: int
    parsed: Any

    def encode(self, event: Mapping[str, Any]) -> bytes:
        """An event as records have it; times are datetimes, or numbers in the unit of their field."""
        written = BytesIO()
        try:
            schemaless_writer(written, self.parsed, event)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError, IndexError) as problem:
            raise Unwritable(f"wrong-type: {type(problem).__name__} {problem}") from problem
        return framed(self.schema_id, written.getvalue())


def registered_encoder(registry: Registry, subject: str, text: str) -> AvroEncoder:
    """Register a schema, or find it registered, and write with it."""
    return encoder_of(registry.register(subject, "AVRO", text), text)


def encoder_of(schema_id: int, text: str) -> AvroEncoder:
    """Write with a schema that is registered."""
    return AvroEncoder(schema_id, parse_schema(json.loads(text)))


def framing(stream: Stream) -> Frame:
    """How the JSON of a stream's events is written into its topic.

    With a registry they are written with the newest version of the subject; where there is none yet, in Avro, the
    declared columns become the first.
    """
    if stream.encoded is None:
        return lambda value: value
    registry = registry_at(stream.encoded.registry)
    latest = registry.latest(stream.encoded.subject)
    match stream.encoded.format:
        case "avro":
            return _avro(stream, _first(stream, registry) if latest is None else latest.schema)
        case "json" if latest is not None:
            schema_id = latest.schema.id
            return lambda value: framed(schema_id, value)
    raise Unwritable(
        f"Stream {stream.name!r}: nobody here writes {stream.encoded.format} for {stream.encoded.subject!r}. "
        "Register a JSON Schema first, write Avro, or send its events with a client of your own."
    )


def _first(stream: Stream, registry: Registry) -> Registered:
    assert stream.encoded is not None  # noqa: S101  # only such streams have subjects
    text = schema_text(stream.schema, stream.needed.values(), record_name(stream.name))
    return Registered(registry.register(stream.encoded.subject, "AVRO", text), "AVRO", text)


def _avro(stream: Stream, schema: Registered) -> Frame:
    encoder, record = encoder_of(schema.id, schema.text), record_of(schema.text)
    times = {column.name for column in stream.schema if column.kind is Kind.TIMESTAMP}

    def framed_in_avro(value: bytes) -> bytes:
        read = read_event(stream.schema, value)
        fields = {name: field for name, field in record.fields.items() if read.get(name) is not None}
        values = {name: _time(field, read[name]) if name in times else read[name] for name, field in fields.items()}
        return encoder.encode(values)

    return framed_in_avro


def _time(field: AvroField, time_us: int) -> Any:
    """A moment as a field has it."""
    match field.fits.get("timestamp"):
        case "micros":
            return time_us
        case "millis":
            return time_us // 1000
        case "nanos":
            return time_us * 1000
    return moment(time_us).isoformat()
