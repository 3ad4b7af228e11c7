"""Parses captured changes with native Spark expressions: Debezium's envelope around a row.

    {"before": {…}, "after": {…}, "op": "u", "source": {"lsn": 24023128, "ts_us": …, …}}
        │             └ the row's columns; of a delete, those of `before`
        └ the same columns with the prefix before_

The id of a change is its position in the database's log, its operation and its key, so a redelivered change has the
same id. The rows of a snapshot share one position, and differ by key. Positions are zero-padded: the changes of one
transaction have one time, and the order of their ids is their order.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.streams.change_capture import BEFORE_PREFIX, CHANGE, CHANGED_AT, DELETED, LSN, OP, Changes
from headrace.declare.streams.schema import Column as Declared
from headrace.declare.streams.schema import Kind
from headrace.spark.gate.json_parser import BODY, CORRUPT, TIMESTAMP_FORMAT, cast_field, json_type, parse_columns

AFTER_IMAGE, BEFORE_IMAGE, SOURCE_FIELD = "after", "before", "source"
SOURCE_DDL = "lsn bigint, ts_us bigint, ts_ms bigint, file string, pos bigint, `row` int, change_lsn string, "
SOURCE_DDL += "event_serial_no bigint"
TEXT_SOURCE_FIELDS = ("file", "change_lsn")  # of a position; other fields are numbers
BIGINT_DIGITS = 19  # of the largest bigint
UNAVAILABLE_VALUE = "__debezium_unavailable_value"
EPOCH_MICROS_PATTERN = r"^\d{15,17}\z"  # 2001 and later; as milliseconds these would be dates far ahead
JSON_OPTIONS = {"timestampFormat": TIMESTAMP_FORMAT, "timeZone": "UTC", "ignoreNullFields": "false"}


def unwrap_changes(raw: DataFrame, stream: Changes) -> DataFrame:
    """Raw records with their event, its JSON, the parse error, and whether they are no row change."""
    value, json, event = F.col("value"), F.col("json"), F.col("event")
    parsed_records = raw.withColumn("json", _parse_envelope(value, stream)).withColumn(
        "event", _change_event(json, stream)
    )
    # A tombstone or, if we publish the deletes ourselves, a TRUNCATE.
    is_truncated = F.coalesce(json.getField(BODY).getField(OP) == "t", F.lit(False)) & F.lit(stream.source is not None)
    return parsed_records.select(
        "*",
        F.to_json(event, JSON_OPTIONS).cast("binary").alias("written"),
        F.when(value.isNotNull(), _change_error(value, json, event, stream)).alias("unread"),
        (value.isNull() | is_truncated).alias("passed_over"),
    )


def _parse_envelope(value: Column, stream: Changes) -> Column:
    """The envelope of a record as a struct; CORRUPT is set if a value does not fit."""
    return parse_columns(
        value, _envelope_ddl(", ".join(f"`{column.name}` {json_type(column)}" for column in stream.row_schema))
    )


def _change_event(json: Column, stream: Changes) -> Column:
    """The event of a change: the row, its metadata, and the row before the change."""
    body = json.getField(BODY)
    op, source = body.getField(OP), body.getField(SOURCE_FIELD)
    change_columns = {
        OP: op,
        DELETED: op == "d",
        CHANGED_AT: F.timestamp_micros(
            F.coalesce(source.getField("ts_us"), source.getField("ts_ms") * F.lit(1000).cast("bigint"))
        ),
        LSN: source.getField(LSN),
        CHANGE: _change_id(op, source, _current_value(body, stream.row_schema.column(stream.key, stream.name))),
    }
    return F.struct(
        *(_current_value(body, column).alias(column.name) for column in stream.row_schema),
        *(column.alias(name) for name, column in change_columns.items()),
        *(_image_value(body, BEFORE_IMAGE, column).alias(BEFORE_PREFIX + column.name) for column in stream.row_schema),
    )


def _change_error(value: Column, json: Column, event: Column, stream: Changes) -> Column:
    """Why a record is not a valid change, as a sentence that starts with a code; null for a valid one."""
    is_text = F.is_valid_utf8(value.cast("string"))
    text_envelope = parse_columns(
        value, _envelope_ddl(", ".join(f"`{column.name}` string" for column in stream.row_schema))
    )
    is_object = is_text & text_envelope.getField(BODY).isNotNull() & text_envelope.getField(CORRUPT).isNull()
    error = F.coalesce(
        F.when(~is_object | is_object.isNull(), F.lit("not-json: the value is not one JSON object in UTF-8")),
        _envelope_error(text_envelope.getField(BODY)),
        *_type_errors(text_envelope.getField(BODY), event, stream),
        *_unavailable_errors(text_envelope.getField(BODY), stream),
        F.lit("wrong-type: a column does not fit the schema"),
    )
    return F.when(~F.coalesce(is_text & _is_valid_change(json, event, stream), F.lit(False)), error)


def _is_valid_change(json: Column, event: Column, stream: Changes) -> Column:
    """Whether a parsed record is a valid change; only invalid ones need the costlier checks."""
    body = json.getField(BODY)
    op, after = body.getField(OP), body.getField(AFTER_IMAGE)
    has_row = F.when(op == "d", body.getField(BEFORE_IMAGE).isNotNull()).otherwise(after.isNotNull())
    is_valid = json.getField(CORRUPT).isNull() & op.isin("c", "u", "d", "r") & has_row
    for column in stream.row_schema:
        before_value, after_value = body.getField(BEFORE_IMAGE).getField(column.name), after.getField(column.name)
        if column.kind is Kind.STRING:
            is_valid = is_valid & F.coalesce(after_value != UNAVAILABLE_VALUE, F.lit(True))
        elif json_type(column) != column.type:  # read as another type, then checked
            is_valid = is_valid & (before_value.isNull() | event.getField(BEFORE_PREFIX + column.name).isNotNull())
            is_valid = is_valid & ((op == "d") | after_value.isNull() | event.getField(column.name).isNotNull())
    return is_valid


def _envelope_ddl(row_ddl: str) -> str:
    return (
        f"{BEFORE_IMAGE} struct<{row_ddl}>, {AFTER_IMAGE} struct<{row_ddl}>, {OP} string, {SOURCE_FIELD} "
        f"struct<{SOURCE_DDL}>"
    )


def _current_value(body: Column, column: Declared) -> Column:
    """A column of the row after the change or, for a delete, before it."""
    return F.when(body.getField(OP) == "d", _image_value(body, BEFORE_IMAGE, column)).otherwise(
        _image_value(body, AFTER_IMAGE, column)
    )


def _image_value(body: Column, image: str, column: Declared) -> Column:
    field = body.getField(image).getField(column.name)
    if column.kind is not Kind.TIMESTAMP:
        return cast_field(field, column)
    return F.when(field.rlike(EPOCH_MICROS_PATTERN), F.timestamp_micros(field.cast("bigint"))).otherwise(
        cast_field(field, column)
    )


def _change_id(op: Column, source: Column, key: Column) -> Column:
    """The id of a change, from its position by PostgreSQL's, MySQL's or SQL Server's fields."""
    position = F.coalesce(
        _zero_padded(source.getField(LSN)),
        _join_position(source, "file", "pos", "row"),
        _join_position(source, "change_lsn", "event_serial_no"),
    )
    return F.concat(position, F.lit("/"), op, F.lit("/"), key.cast("string"))


def _join_position(source: Column, *names: str) -> Column:
    """Zero-padded fields, joined; null if one is null."""
    parts = [
        part if name in TEXT_SOURCE_FIELDS else _zero_padded(part) for name in names for part in [source.getField(name)]
    ]
    return F.concat(*(piece for part in parts for piece in (part, F.lit(":"))))


def _zero_padded(number: Column) -> Column:
    """An integer as text with the same order."""
    return F.lpad(number.cast("string"), BIGINT_DIGITS, "0")


def _envelope_error(body: Column) -> Column:
    op, after, before = body.getField(OP), body.getField(AFTER_IMAGE), body.getField(BEFORE_IMAGE)
    return (
        F.when(op.isNull(), F.lit("not-a-change: there is no op; the topic must have Debezium's envelope, unwrapped"))
        .when(op == "t", F.lit("truncated: TRUNCATE emptied the table, and names no rows"))
        .when(~op.isin("c", "u", "d", "r"), F.concat(F.lit("not-a-change: op is "), F.substring(op, 1, 20)))
        .when((op == "d") & before.isNull(), F.lit("not-a-change: a delete has no row before it"))
        .when((op != "d") & after.isNull(), F.lit("not-a-change: there is no row after it"))
    )


def _type_errors(text_body: Column, event: Column, stream: Changes) -> Iterator[Column]:
    for image, prefix in ((AFTER_IMAGE, ""), (BEFORE_IMAGE, BEFORE_PREFIX)):
        for column in stream.row_schema:
            text = text_body.getField(image).getField(column.name)
            is_expected = F.lit(True) if image == BEFORE_IMAGE else text_body.getField(OP) != "d"
            yield F.when(
                is_expected & text.isNotNull() & event.getField(prefix + column.name).isNull(),
                F.concat(
                    F.lit(f"wrong-type: {image} {column.name} is not a {column.type}: "), F.substring(text, 1, 80)
                ),
            )


def _unavailable_errors(text_body: Column, stream: Changes) -> Iterator[Column]:
    """The errors of large values that an update left unchanged: only REPLICA IDENTITY FULL logs them."""
    for column in stream.row_schema:
        yield F.when(
            (text_body.getField(OP) != "d")
            & (text_body.getField(AFTER_IMAGE).getField(column.name) == UNAVAILABLE_VALUE),
            F.lit(f"unavailable: {column.name} is not in the log; the table needs REPLICA IDENTITY FULL"),
        )
