"""The schema formats of a registry, behind one interface."""

from collections.abc import Iterator, Mapping

from headrace.declare.streams.encoding import RecordEncoding, RegisteredSchema
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.schema_registry import avro, json_schema, protobuf
from headrace.kafka.schema_registry.column_mapping import (
    ColumnProblem,
    SchemaColumnMapping,
    SchemaField,
    column_problems,
    map_columns,
)
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.registry_client import SCHEMA_TYPES, SchemaDefinition


class UnusableSchemaError(HeadraceError):
    """A schema that cannot be read as a stream's columns."""


def schema_fields(stream: Stream, schema: SchemaDefinition) -> Mapping[str, SchemaField]:
    """The fields of a registered schema for a stream."""
    assert stream.encoding is not None  # noqa: S101  # only such streams have registered schemas
    _require_format(stream.encoding, schema)
    match stream.encoding.format:
        case "avro":
            return avro.parse_record_schema(schema.text).fields
        case "protobuf":
            return protobuf.parse_fields(schema.text)
        case "json":
            return json_schema.parse_fields(schema.text, stream.schema.names)


def to_registered_schema(encoded: RecordEncoding, version: int, schema: SchemaDefinition) -> RegisteredSchema:
    """The columns of a registered schema."""
    _require_format(encoded, schema)
    match encoded.format:
        case "avro":
            return avro.to_registered_schema(version, schema.text)
        case "protobuf":
            return protobuf.to_registered_schema(version, schema.text)
        case "json":
            return json_schema.to_registered_schema(version, schema.text)


def reader_incompatibilities(stream: Stream, schema: SchemaDefinition) -> Iterator[ColumnProblem]:
    """What a reader with a registered schema would lack, or misread, in events with a stream's columns.

    For Avro alone: the other formats have no rules for readers of unknown fields.
    """
    if stream.encoding is not None and stream.encoding.format == "avro":
        needed = tuple(stream.required_columns.values())
        yield from avro.reader_incompatibilities(stream.schema, needed, avro.parse_record_schema(schema.text))


def readable_schemas(
    stream: Stream, known_schemas: KnownSchemas
) -> tuple[dict[SchemaDefinition, list[SchemaColumnMapping]], dict[int, str]]:
    """The schemas that can be read as a stream's columns, with their mappings, and why the others cannot be."""
    readable, unreadable = dict[SchemaDefinition, list[SchemaColumnMapping]](), dict[int, str]()
    for schema in known_schemas.registered:
        try:
            readable[schema] = _map_all_columns(stream, schema)
        except HeadraceError as error:
            unreadable[schema.id] = str(error)
    return readable, unreadable


def _map_all_columns(stream: Stream, schema: SchemaDefinition) -> list[SchemaColumnMapping]:
    mappings = map_columns(stream, schema_fields(stream, schema))
    if problems := [*column_problems(mappings)]:
        raise UnusableSchemaError("; ".join(map(str, problems)))
    return [mapping for mapping in mappings if not isinstance(mapping, ColumnProblem)]


def _require_format(encoded: RecordEncoding, schema: SchemaDefinition) -> None:
    """Reject a schema of another format than the stream's, or one with references."""
    schema_type = SCHEMA_TYPES[encoded.format]
    if schema.kind != schema_type:
        raise UnusableSchemaError(f"it is {schema.kind}, and the stream is {schema_type}")
    if schema.has_references:
        raise UnusableSchemaError("it refers to other schemas; register it whole")
