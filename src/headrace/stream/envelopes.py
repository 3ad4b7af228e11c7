"""Captured changes as Debezium writes them: an envelope around a row, read with native Spark expressions.

    {"before": {…}, "after": {…}, "op": "u", "source": {"lsn": 24023128, "ts_us": …, …}}
        │             └ the row's columns; of a delete, those of `before`
        └ the same with before_ in front

The id of a change is its place in the database's own log, what was done, and the key: one that is delivered again after
a crash has it again. Of a snapshot all rows have one place, and each its key. Places have all their digits: the changes
of one transaction have one time, and the order of their ids is theirs.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.changes import BEFORE, CHANGE, CHANGED_AT, DELETED, LSN, OP, Changes
from headrace.declare.schema import Column as Declared
from headrace.declare.schema import Kind
from headrace.stream.events import AS_WRITTEN, BODY, CORRUPT, json_type, read, typed

AFTER, OLD, SOURCE = "after", "before", "source"
PLACE = "lsn bigint, ts_us bigint, ts_ms bigint, file string, pos bigint, `row` int, change_lsn string, "
PLACE += "event_serial_no bigint"
TEXTS = ("file", "change_lsn")  # of a place; other parts are numbers
DIGITS = 19  # of the largest bigint
UNAVAILABLE = "__debezium_unavailable_value"
EPOCH_MICROS = r"^\d{15,17}\z"  # 2001 and later; as milliseconds these would be dates far ahead
WRITTEN = {"timestampFormat": AS_WRITTEN, "timeZone": "UTC", "ignoreNullFields": "false"}


def unwrapped(raw: DataFrame, stream: Changes) -> DataFrame:
    """Raw records with the event of each, its JSON, why it has none, and whether it tells of no row at all."""
    value, json, event = F.col("value"), F.col("json"), F.col("event")
    read_ = raw.withColumn("json", _parsed(value, stream)).withColumn("event", _event(json, stream))
    # A tombstone or, where we tell of the rows ourselves, that all are gone.
    is_truncated = F.coalesce(json.getField(BODY).getField(OP) == "t", F.lit(False)) & F.lit(stream.source is not None)
    return read_.select(
        "*",
        F.to_json(event, WRITTEN).cast("binary").alias("written"),
        F.when(value.isNotNull(), _odd(value, json, event, stream)).alias("unread"),
        (value.isNull() | is_truncated).alias("passed_over"),
    )


def _parsed(value: Column, stream: Changes) -> Column:
    """The envelope of a record as a struct; CORRUPT is set where something did not fit."""
    return read(value, _columns(", ".join(f"`{column.name}` {json_type(column)}" for column in stream.row)))


def _event(json: Column, stream: Changes) -> Column:
    """The event a change is: the row, what is told of it, and the row as it was."""
    body = json.getField(BODY)
    op, source = body.getField(OP), body.getField(SOURCE)
    told = {
        OP: op,
        DELETED: op == "d",
        CHANGED_AT: F.timestamp_micros(
            F.coalesce(source.getField("ts_us"), source.getField("ts_ms") * F.lit(1000).cast("bigint"))
        ),
        LSN: source.getField(LSN),
        CHANGE: _id(op, source, _of_row(body, stream.row.column(stream.key, stream.name))),
    }
    return F.struct(
        *(_of_row(body, column).alias(column.name) for column in stream.row),
        *(column.alias(name) for name, column in told.items()),
        *(_field(body, OLD, column).alias(BEFORE + column.name) for column in stream.row),
    )


def _odd(value: Column, json: Column, event: Column, stream: Changes) -> Column:
    """Why a record is no change that can be taken, as a sentence that starts with a code; null where it is one."""
    is_text = F.is_valid_utf8(value.cast("string"))
    texts = read(value, _columns(", ".join(f"`{column.name}` string" for column in stream.row)))
    is_object = is_text & texts.getField(BODY).isNotNull() & texts.getField(CORRUPT).isNull()
    why = F.coalesce(
        F.when(~is_object | is_object.isNull(), F.lit("not-json: the value is not one JSON object in UTF-8")),
        _no_change(texts.getField(BODY)),
        *_wrong_types(texts.getField(BODY), event, stream),
        *_unavailable(texts.getField(BODY), stream),
        F.lit("wrong-type: a column does not fit the schema"),
    )
    return F.when(~F.coalesce(is_text & _is_fine(json, event, stream), F.lit(False)), why)


def _is_fine(json: Column, event: Column, stream: Changes) -> Column:
    """Whether a record is a change that fits, as it was read: only of one that is not, more is asked."""
    body = json.getField(BODY)
    op, after = body.getField(OP), body.getField(AFTER)
    has_row = F.when(op == "d", body.getField(OLD).isNotNull()).otherwise(after.isNotNull())
    fine = json.getField(CORRUPT).isNull() & op.isin("c", "u", "d", "r") & has_row
    for column in stream.row:
        before, now = body.getField(OLD).getField(column.name), after.getField(column.name)
        if column.kind is Kind.STRING:
            fine = fine & F.coalesce(now != UNAVAILABLE, F.lit(True))
        elif json_type(column) != column.type:  # read as another type, and then looked at
            fine = fine & (before.isNull() | event.getField(BEFORE + column.name).isNotNull())
            fine = fine & ((op == "d") | now.isNull() | event.getField(column.name).isNotNull())
    return fine


def _columns(row: str) -> str:
    return f"{OLD} struct<{row}>, {AFTER} struct<{row}>, {OP} string, {SOURCE} struct<{PLACE}>"


def _of_row(body: Column, column: Declared) -> Column:
    """A column of the row that is now or, of a delete, that is gone."""
    return F.when(body.getField(OP) == "d", _field(body, OLD, column)).otherwise(_field(body, AFTER, column))


def _field(body: Column, side: str, column: Declared) -> Column:
    field = body.getField(side).getField(column.name)
    if column.kind is not Kind.TIMESTAMP:
        return typed(field, column)
    return F.when(field.rlike(EPOCH_MICROS), F.timestamp_micros(field.cast("bigint"))).otherwise(typed(field, column))


def _id(op: Column, source: Column, key: Column) -> Column:
    """Where a change stands in its database's log: by PostgreSQL's, MySQL's or SQL Server's names for that."""
    place = F.coalesce(
        _digits(source.getField(LSN)),
        _joined(source, "file", "pos", "row"),
        _joined(source, "change_lsn", "event_serial_no"),
    )
    return F.concat(place, F.lit("/"), op, F.lit("/"), key.cast("string"))


def _joined(source: Column, *names: str) -> Column:
    """Fields side by side; null where one is."""
    parts = [part if name in TEXTS else _digits(part) for name in names for part in [source.getField(name)]]
    return F.concat(*(piece for part in parts for piece in (part, F.lit(":"))))


def _digits(number: Column) -> Column:
    """A whole number as text that is in order where the number is."""
    return F.lpad(number.cast("string"), DIGITS, "0")


def _no_change(body: Column) -> Column:
    op, after, before = body.getField(OP), body.getField(AFTER), body.getField(OLD)
    return (
        F.when(op.isNull(), F.lit("not-a-change: there is no op; the topic must have Debezium's envelope, unwrapped"))
        .when(op == "t", F.lit("truncated: the table was emptied at once, which is told of no row"))
        .when(~op.isin("c", "u", "d", "r"), F.concat(F.lit("not-a-change: op is "), F.substring(op, 1, 20)))
        .when((op == "d") & before.isNull(), F.lit("not-a-change: a delete does not say what is gone"))
        .when((op != "d") & after.isNull(), F.lit("not-a-change: there is no row after it"))
    )


def _wrong_types(texts: Column, event: Column, stream: Changes) -> Iterator[Column]:
    for side, prefix in ((AFTER, ""), (OLD, BEFORE)):
        for column in stream.row:
            text = texts.getField(side).getField(column.name)
            is_told = F.lit(True) if side == OLD else texts.getField(OP) != "d"
            yield F.when(
                is_told & text.isNotNull() & event.getField(prefix + column.name).isNull(),
                F.concat(F.lit(f"wrong-type: {side} {column.name} is not a {column.type}: "), F.substring(text, 1, 80)),
            )


def _unavailable(texts: Column, stream: Changes) -> Iterator[Column]:
    """A large value that an update left alone is not in the database's log, but where the table says to write all."""
    for column in stream.row:
        yield F.when(
            (texts.getField(OP) != "d") & (texts.getField(AFTER).getField(column.name) == UNAVAILABLE),
            F.lit(f"unavailable: {column.name} is not in the log; the table needs REPLICA IDENTITY FULL"),
        )
