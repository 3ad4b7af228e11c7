"""Decodes events of formats with a schema registry; the output is always JSON.

avro      Spark decodes it, in the real-time lane
json      the payload after the header is parsed like any JSON
protobuf  Python decodes it, through Arrow: the real-time lane runs no Python, so its gate uses micro-batches
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.formats import readable_schemas
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.protobuf import ProtobufDecodeError, ProtobufReader, create_reader
from headrace.kafka.schema_registry.wire_format import HEADER, read_schema_id
from headrace.spark.execution.lanes import Lane
from headrace.spark.gate import avro_decoder
from headrace.spark.gate.framed_records import FRAME_HEADER, decode_error, frame_header, payload
from headrace.spark.gate.json_parser import parse_error, parse_json, to_event

DECODED_TYPE = "written binary, why string"


def decode_records(raw: DataFrame, stream: Stream, known_schemas: KnownSchemas) -> DataFrame:
    """Records with their event, the decode error (`unread`), and the JSON for the output (`written`)."""
    framed_records = raw.withColumn(FRAME_HEADER, frame_header())
    format_ = None if stream.encoding is None else stream.encoding.format
    if format_ == "avro":
        return avro_decoder.decode_avro(framed_records, stream, known_schemas)
    return (
        _decode_protobuf(framed_records, stream, known_schemas)
        if format_ == "protobuf"
        else _decode_json(framed_records, stream, known_schemas)
    )


def fastest_gate_lane(stream: Stream) -> Lane:
    """The fastest lane that a stream's gate can run in."""
    is_python = stream.encoding is not None and stream.encoding.format == "protobuf"
    return Lane.MICRO_BATCH if is_python else Lane.REAL_TIME


def _decode_json(framed_records: DataFrame, stream: Stream, known_schemas: KnownSchemas) -> DataFrame:
    schema_mappings, incompatible_schemas = readable_schemas(stream, known_schemas)
    payload_errors = {schema.id: F.lit(None).cast("string") for schema in schema_mappings}
    return _parse_decoded_json(
        framed_records.withColumn("written", payload()),
        stream,
        decode_error(payload_errors, incompatible_schemas, known_schemas),
    )


def _parse_decoded_json(decoded_records: DataFrame, stream: Stream, frame_error: Column) -> DataFrame:
    """Parse records whose JSON is in `written`; an error of the header takes precedence."""
    text = F.col("written")
    parsed_records = decoded_records.withColumn("json", parse_json(text, stream)).withColumn(
        "event", to_event(F.col("json"), stream)
    )
    return parsed_records.withColumn("unread", F.coalesce(frame_error, parse_error(text, stream)))


def _decode_protobuf(framed_records: DataFrame, stream: Stream, known_schemas: KnownSchemas) -> DataFrame:
    schema_mappings, incompatible_schemas = readable_schemas(stream, known_schemas)
    readers = {schema.id: create_reader(schema.text, tuple(mappings)) for schema, mappings in schema_mappings.items()}
    decoded_records = framed_records.withColumn("opened", _protobuf_udf(readers)(F.col("value")))
    payload_errors = {schema.id: F.col("opened.why") for schema in schema_mappings}
    return _parse_decoded_json(
        decoded_records.withColumn("written", F.col("opened.written")),
        stream,
        decode_error(payload_errors, incompatible_schemas, known_schemas),
    )


def _protobuf_udf(readers: Mapping[int, ProtobufReader]) -> Any:
    """An Arrow UDF: the JSON of each value, or its error; neither for other schemas."""

    def decode_values(values: pa.Array) -> pa.Array:
        rows = [_decode_protobuf_value(value, readers) for value in values.to_pylist()]
        return pa.array(rows, pa.struct([("written", pa.binary()), ("why", pa.string())]))

    return arrow_udf(decode_values, DECODED_TYPE)  # type: ignore[call-overload]  # its annotations give its kind


def _decode_protobuf_value(value: bytes | None, readers: Mapping[int, ProtobufReader]) -> dict[str, bytes | str | None]:
    schema_id = read_schema_id(value)
    reader = None if schema_id is None else readers.get(schema_id)
    if reader is None or value is None:
        return {"written": None, "why": None}
    try:
        return {"written": reader.to_json(value[HEADER.size :]), "why": None}
    except ProtobufDecodeError as error:
        return {"written": None, "why": f"not-protobuf: the bytes are not those of schema {schema_id}: {error}"}
