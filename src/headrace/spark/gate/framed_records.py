"""Records in the schema registry's wire format: a zero byte and the schema id, followed by the payload."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.wire_format import HEADER, frame_payload
from headrace.spark.gate.schema_cache import UNCACHED_SCHEMA_MARKER

FRAME_HEADER = "head"
NOT_FRAMED = "not-framed: the value does not begin with a zero and the four bytes of a schema's id"


def frame_header() -> Column:
    """The header bytes of a record, which contain its schema id."""
    return F.substring("value", 1, HEADER.size)


def payload() -> Column:
    """The bytes of a record after its header."""
    return F.substring("value", HEADER.size + 1, 2**31 - 1)


def has_schema_id(schema_id: int) -> Column:
    """Whether a record has a schema id."""
    return F.col(FRAME_HEADER) == F.lit(frame_payload(schema_id, b""))


def decode_error(
    payload_errors: Mapping[int, Column], incompatible_schemas: Mapping[int, str], known_schemas: KnownSchemas
) -> Column:
    """Why a record has no event: by its header or, for a readable schema, by that schema's `payload_errors`."""
    is_framed = (F.length("value") >= HEADER.size) & (F.substring("value", 1, 1) == F.lit(b"\0"))
    error = F.when(F.col("value").isNull() | ~is_framed, NOT_FRAMED)
    for schema_id, payload_error in payload_errors.items():
        error = error.when(has_schema_id(schema_id), payload_error)
    for schema_id, reason in incompatible_schemas.items():
        message = f"incompatible-schema: id {schema_id} cannot be read as the stream's columns: {reason}"
        error = error.when(has_schema_id(schema_id), F.lit(message))
    for schema_id in known_schemas.missing_ids:
        error = error.when(has_schema_id(schema_id), _unknown_schema_error(F.lit(str(schema_id))))
    schema_id_text = F.conv(F.hex(F.substring(FRAME_HEADER, 2, 4)), 16, 10)
    if known_schemas.is_sufficient:
        return error.otherwise(_unknown_schema_error(schema_id_text))
    return error.otherwise(F.raise_error(F.concat(F.lit(f"{UNCACHED_SCHEMA_MARKER} "), schema_id_text)).cast("string"))


def _unknown_schema_error(schema_id: Column) -> Column:
    return F.concat(F.lit("unknown-schema: the registry knows no id "), schema_id)
