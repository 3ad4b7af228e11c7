"""Parses JSON events strictly, with native Spark expressions: a value of a wrong type is null and has an error."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.declare.streams.schema import Column as Declared
from headrace.declare.streams.schema import Kind
from headrace.declare.streams.stream import Stream

BODY, CORRUPT = "body", "corrupt"
ISO_8601_PATTERN = r"^(?!0000)\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.]\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?\z"
TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"  # our output format, with microseconds
EPOCH_MILLIS_PATTERN = r"^-?\d{1,14}\z"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "allowSingleQuotes": "false"}


def parse_json(value: Column, stream: Stream) -> Column:
    """The JSON of a record as a struct; timestamps are still text, and CORRUPT is set if a value does not fit."""
    return parse_columns(value, ", ".join(f"`{column.name}` {json_type(column)}" for column in stream.schema))


def to_event(json: Column, stream: Stream) -> Column:
    """The typed event of a parsed record."""
    return F.struct(
        *(cast_field(json.getField(BODY).getField(column.name), column).alias(column.name) for column in stream.schema)
    )


def parse_json_as_text(value: Column, stream: Stream) -> Column:
    """Each field of a record as its original text, for error messages."""
    return parse_columns(value, ", ".join(f"`{column.name}` string" for column in stream.schema))


def parse_error(value: Column, stream: Stream) -> Column:
    """Why a record has no event, from the results of `parse_json` and `to_event`; null if it has one."""
    json, event = F.col("json"), F.col("event")
    is_text = F.is_valid_utf8(value.cast("string"))
    is_invalid = json.isNull() | json.getField(BODY).isNull() | json.getField(CORRUPT).isNotNull() | ~is_text
    for column in stream.schema:
        is_invalid = is_invalid | (
            json.getField(BODY).getField(column.name).isNotNull() & event.getField(column.name).isNull()
        )
    text_json = parse_json_as_text(value, stream)
    is_object = is_text & text_json.getField(BODY).isNotNull() & text_json.getField(CORRUPT).isNull()
    message = F.when(
        is_object,
        F.coalesce(type_error(event, text_json, stream), F.lit("wrong-type: a column does not fit the schema")),
    )
    return F.when(is_invalid, F.coalesce(message, F.lit("not-json: the value is not one JSON object in UTF-8")))


def type_error(event: Column, text_json: Column, stream: Stream) -> Column:
    """A sentence about the first column whose text does not fit its type; null if all fit."""
    messages = [
        F.when(
            text_json.getField(BODY).getField(column.name).isNotNull() & event.getField(column.name).isNull(),
            F.concat(
                F.lit(f"wrong-type: column {column.name} is not a {column.type}: "),
                F.substring(text_json.getField(BODY).getField(column.name), 1, 80),
            ),
        )
        for column in stream.schema
    ]
    return F.coalesce(*messages)


def parse_columns(value: Column, columns_ddl: str) -> Column:
    """A record as one JSON object of these columns, in BODY; CORRUPT is set if a value does not fit."""
    # Wrapped, because Spark parses the first JSON value and ignores the rest, such as a second event in the record.
    wrapped = F.concat(F.lit(f'{{"{BODY}":'), value.cast("string"), F.lit("}"))
    return F.from_json(wrapped, f"`{BODY}` struct<{columns_ddl}>, `{CORRUPT}` string", _OPTIONS)


def json_type(column: Declared) -> str:
    """The type that a column is parsed as, before it is checked."""
    # Spark's parser reads 200 as the tinyint -56: parse a wider type, then check the range.
    return {"timestamp": "string", "tinyint": "int"}.get(column.type, column.type)


def cast_field(field: Column, column: Declared) -> Column:
    """A parsed field in its column's type; null if it does not fit."""
    if column.kind is Kind.TIMESTAMP:
        return parse_timestamp(field)
    if column.type == "tinyint":
        return F.when(field.between(-128, 127), field.cast("tinyint"))
    return field


def parse_timestamp(text: Column) -> Column:
    """ISO 8601 or epoch milliseconds; null otherwise. A bare cast would read "12:00" as today's noon."""
    return F.when(text.rlike(EPOCH_MILLIS_PATTERN), F.timestamp_millis(text.cast("bigint"))).when(
        text.rlike(ISO_8601_PATTERN), text.cast("timestamp")
    )
