"""Decodes Avro events with native Spark expressions; the schema id selects the decoder.

value  0 | 0 0 0 3 | payload ──▶ if the header has id 3: from_avro(payload, schema 3, its columns) ──▶ event
                                 if it has id 4: …
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.avro import parse_record_schema, projected_schema
from headrace.kafka.schema_registry.column_mapping import SchemaColumnMapping
from headrace.kafka.schema_registry.formats import readable_schemas
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.registry_client import SchemaDefinition
from headrace.spark.gate.framed_records import decode_error, has_schema_id, payload
from headrace.spark.gate.json_parser import TIMESTAMP_FORMAT, parse_timestamp
from headrace.tiles.finish import MAX_DATETIME_US, MIN_DATETIME_US

JSON_OPTIONS = {"timestampFormat": TIMESTAMP_FORMAT}
_MICROS_PER_UNIT = {"millis": 1000, "micros": 1}


@dataclass(frozen=True)
class AvroSchemaDecoder:
    """The decoder of one schema: the column of the decoded payload, and the mapping to the stream's columns."""

    schema: SchemaDefinition
    column_mappings: Sequence[SchemaColumnMapping]

    @property
    def column_name(self) -> str:
        return f"of_{self.schema.id}"

    def field_value(self, mapping: SchemaColumnMapping) -> Column:
        """The value of a mapped field; null if the schema lacks it."""
        return F.lit(None) if mapping.field is None else F.col(self.column_name).getField(mapping.field.name)


def decode_avro(framed_records: DataFrame, stream: Stream, known_schemas: KnownSchemas) -> DataFrame:
    """Records with their event, the decode error (`unread`), and the JSON for the output (`written`)."""
    schema_mappings, incompatible_schemas = readable_schemas(stream, known_schemas)
    decoders = [AvroSchemaDecoder(schema, mappings) for schema, mappings in schema_mappings.items()]
    # Each schema has its own payload column, so that Spark decodes it once, not once per field.
    with_payloads = framed_records.select(
        "*", *(_decode_payload(decoder).alias(decoder.column_name) for decoder in decoders)
    )
    payload_errors = {decoder.schema.id: _decode_error(decoder) for decoder in decoders}
    return (
        with_payloads.withColumn("event", _event_column(decoders, stream))
        .withColumn("unread", decode_error(payload_errors, incompatible_schemas, known_schemas))
        .withColumn("written", F.to_json("event", JSON_OPTIONS).cast("binary"))
    )


def _decode_payload(decoder: AvroSchemaDecoder) -> Column:
    reader_schema = projected_schema(parse_record_schema(decoder.schema.text), decoder.column_mappings)
    options = {"mode": "PERMISSIVE", "avroSchema": reader_schema}
    return F.when(has_schema_id(decoder.schema.id), from_avro(payload(), decoder.schema.text, options))


def _event_column(decoders: Sequence[AvroSchemaDecoder], stream: Stream) -> Column:
    columns_ddl = ", ".join(f"`{column.name}`: {column.type}" for column in stream.schema)
    event = F.lit(None).cast(f"struct<{columns_ddl}>")
    for decoder in decoders:
        typed_event = F.struct(
            *(_typed_value(decoder, mapping).alias(mapping.column.name) for mapping in decoder.column_mappings)
        )
        event = F.when(has_schema_id(decoder.schema.id), typed_event).otherwise(event)
    return event


def _typed_value(decoder: AvroSchemaDecoder, mapping: SchemaColumnMapping) -> Column:
    """A column's value in its declared type; null if the type cannot represent it."""
    column, value = mapping.column, decoder.field_value(mapping)
    if mapping.field is None:
        default = F.lit(mapping.default)
        return parse_timestamp(default) if column.kind is Kind.TIMESTAMP else default.cast(column.type)
    if column.kind is Kind.TIMESTAMP:
        return _to_timestamp(value, mapping.conversion)
    if column.kind is Kind.STRING:
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), text)
    if column.type in ("tinyint", "smallint"):
        limit = 1 << (7 if column.type == "tinyint" else 15)
        return F.when(value.between(-limit, limit - 1), value.cast(column.type))
    return value.cast(column.type)


def _to_timestamp(value: Column, conversion: str) -> Column:
    """A timestamp within the calendar; null for one beyond it, which JSON cannot represent."""
    if conversion == "text":
        return parse_timestamp(value)
    if conversion == "nanos":
        thousand = F.lit(1000).cast("bigint")
        return F.timestamp_micros(F.call_function("div", value - F.pmod(value, thousand), thousand))
    micros_per_unit = _MICROS_PER_UNIT[conversion]
    event_time = F.timestamp_micros(value * F.lit(micros_per_unit).cast("bigint"))
    return F.when(value.between(-(-MIN_DATETIME_US // micros_per_unit), MAX_DATETIME_US // micros_per_unit), event_time)


def _decode_error(decoder: AvroSchemaDecoder) -> Column:
    """The decode error of a payload: a decoder returns only nulls for bytes that do not match its schema."""
    mappings = [mapping for mapping in decoder.column_mappings if mapping.field is not None]
    has_only_nulls = reduce(and_, (decoder.field_value(one).isNull() for one in mappings))
    message = f"not-avro: the bytes are not those of schema {decoder.schema.id}"
    return F.coalesce(F.when(has_only_nulls, message), *(_type_error(decoder, one) for one in mappings))


def _type_error(decoder: AvroSchemaDecoder, mapping: SchemaColumnMapping) -> Column:
    """The error of a value that its column cannot represent: out of range, or not text."""
    column, value = mapping.column, decoder.field_value(mapping)
    is_lost = value.isNotNull() & F.col("event").getField(column.name).isNull()
    value_text = F.lit("it is not UTF-8") if column.kind is Kind.STRING else F.substring(value.cast("string"), 1, 80)
    return F.when(is_lost, F.concat(F.lit(f"wrong-type: column {column.name} is not a {column.type}: "), value_text))
