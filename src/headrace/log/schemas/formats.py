"""The formats a registry keeps schemas of, each asked in its own words."""

from collections.abc import Iterator, Mapping

from headrace.declare.encoded import Encoded, Subject
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.schemas import avro, jsonschema, protobuf
from headrace.log.schemas.known import Known
from headrace.log.schemas.readings import Break, Field, Reading, breaks, readings
from headrace.log.schemas.registry import KINDS, Registered


class Unfit(HeadraceError):
    """A schema that cannot be read as a stream's columns."""


def fields_of(stream: Stream, schema: Registered) -> Mapping[str, Field]:
    """The fields that a registered schema has for a stream."""
    assert stream.encoded is not None  # noqa: S101  # only such streams have registered schemas
    _require_format(stream.encoded, schema)
    match stream.encoded.format:
        case "avro":
            return avro.record_of(schema.text).fields
        case "protobuf":
            return protobuf.fields_of(schema.text)
        case "json":
            return jsonschema.fields_of(schema.text, stream.schema.names)


def subject_from(encoded: Encoded, version: int, schema: Registered) -> Subject:
    """The columns of a registered schema."""
    _require_format(encoded, schema)
    match encoded.format:
        case "avro":
            return avro.subject_of(version, schema.text)
        case "protobuf":
            return protobuf.subject_of(version, schema.text)
        case "json":
            return jsonschema.subject_of(version, schema.text)


def unread_by(stream: Stream, schema: Registered) -> Iterator[Break]:
    """What a reader with a registered schema would miss, or misread, in events that have a stream's columns.

    Of Avro alone: the other formats have no rules by which a reader takes what it does not know.
    """
    if stream.encoded is not None and stream.encoded.format == "avro":
        needed = tuple(stream.needed.values())
        yield from avro.unread_by(stream.schema, needed, avro.record_of(schema.text))


def readable_of(stream: Stream, known: Known) -> tuple[dict[Registered, list[Reading]], dict[int, str]]:
    """The schemas that can be read as a stream's columns, each with how, and why the others cannot be."""
    readable, unfit = dict[Registered, list[Reading]](), dict[int, str]()
    for schema in known.found:
        try:
            readable[schema] = _readings(stream, schema)
        except HeadraceError as why:
            unfit[schema.id] = str(why)
    return readable, unfit


def _readings(stream: Stream, schema: Registered) -> list[Reading]:
    found = readings(stream, fields_of(stream, schema))
    if broken := [*breaks(found)]:
        raise Unfit("; ".join(map(str, broken)))
    return [one for one in found if not isinstance(one, Break)]


def _require_format(encoded: Encoded, schema: Registered) -> None:
    """Refuse a schema of another format than the stream's, or one that is not whole."""
    wanted = KINDS[encoded.format]
    if schema.kind != wanted:
        raise Unfit(f"it is {schema.kind}, and the stream is {wanted}")
    if schema.has_references:
        raise Unfit("it refers to other schemas; register it whole")
