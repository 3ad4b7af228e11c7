"""The gate: writes each raw record to exactly one of STREAM.clean, .late, .dead or .dropped, independent of others.

    payments ──▶ not JSON? wrong type? id, key, time missing? check failed? too far ahead? ──▶ payments.dead
             ──▶ later than the stream allows? ──▶ payments.late (or payments.dropped)
             ──▶ payments.clean

It unwraps captured changes: a clean change is one plain event with the row and its metadata.
Every output record has the raw partition number and offset, by which a reader recognizes replays.
"""

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.durations import duration_text
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.declare.streams.change_capture import Changes
from headrace.declare.streams.stream import Stream
from headrace.kafka.headers import (
    ARRIVAL_HEADER,
    DEAD_LETTER_HEADERS,
    LATE_HEADERS,
    LATENESS_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    POSITION_HEADERS,
    RAISED_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
    TRACEPARENT_HEADER,
    RecordHeader,
)
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.trace_context import TRACEPARENT_LENGTH
from headrace.spark.gate import debezium_envelope
from headrace.spark.gate.column_expressions import to_column
from headrace.spark.gate.header_columns import first_header, header_array, header_struct
from headrace.spark.gate.json_parser import parse_error, parse_json, to_event
from headrace.spark.gate.registry_decoder import decode_records


def apply_gate(raw: DataFrame, stream: Stream, known_schemas: KnownSchemas | None = None) -> DataFrame:
    """Kafka records of the raw topic → Kafka records of the stream's outputs, with its registered schemas.

    Events are written as JSON, whatever their input format; dead letters keep their bytes.
    """
    is_kept, is_dead = F.col("fate") != stream.dropped, F.col("fate") == stream.dead
    is_rewritten = stream.encoding is not None or isinstance(stream, Changes)
    value = F.when(is_dead, F.col("value")).otherwise(F.col("written")) if is_rewritten else F.col("value")
    return classify_records(raw, stream, known_schemas).select(
        F.col("fate").alias("topic"),
        F.when(is_kept, F.col("key")).alias("key"),
        F.when(is_kept, value).alias("value"),
        F.col("partition"),
        _output_headers(stream).alias("headers"),
    )


def classify_records(raw: DataFrame, stream: Stream, known_schemas: KnownSchemas | None = None) -> DataFrame:
    """Raw records with their event, its lateness in microseconds, its dead-letter reason or null, and its topic."""
    parsed_records = _parse_records(raw, stream, known_schemas)
    timed_records = parsed_records.withColumn("arrival", _arrival_us(stream)).withColumn(
        "lateness", F.col("arrival") - F.unix_micros(F.col("event").getField(stream.time))
    )
    return timed_records.withColumn("reason", _dead_letter_reason(stream)).withColumn("fate", _output_topic(stream))


def _parse_records(raw: DataFrame, stream: Stream, known_schemas: KnownSchemas | None) -> DataFrame:
    """Raw records with their event, the parse error and, if it differs from the bytes, the event's JSON."""
    if isinstance(stream, Changes):
        return debezium_envelope.unwrap_changes(raw, stream)
    return (
        _parse_json_records(raw, stream)
        if stream.encoding is None
        else decode_records(raw, stream, known_schemas or KnownSchemas())
    )


def _parse_json_records(raw: DataFrame, stream: Stream) -> DataFrame:
    value = F.col("value")
    parsed_records = raw.withColumn("json", parse_json(value, stream)).withColumn(
        "event", to_event(F.col("json"), stream)
    )
    return parsed_records.withColumn("unread", parse_error(value, stream))


def _arrival_us(stream: Stream) -> Column:
    """The arrival time: the record's log append time, or the stream's own arrival column."""
    appended_us = F.unix_micros("timestamp")
    if stream.arrival is None:
        return appended_us
    # A dead letter without that column still has an arrival time.
    return F.coalesce(F.unix_micros(F.col("event").getField(stream.arrival)), appended_us)


def _dead_letter_reason(stream: Stream) -> Column:
    """Why a record is a dead letter, as a sentence that starts with a code; null for others."""
    reasons = [
        F.col("unread"),
        _missing_column_reason(stream),
        _failed_check_reason(stream),
        _too_far_ahead_reason(stream),
    ]
    return F.coalesce(*([_raised_reason()] if isinstance(stream, DerivedStream) else []), *reasons)


def _raised_reason() -> Column:
    """The error of a derived stream's query for a row that it could not derive."""
    return F.concat(F.lit("raised: "), first_header(RAISED_HEADER).cast("string"))


def _missing_column_reason(stream: Stream) -> Column:
    event = F.col("event")
    return F.coalesce(
        *(
            F.when(event.getField(column).isNull(), F.lit(f"missing-{role}: column {column} is absent or null"))
            for role, column in stream.required_columns.items()
        )
    )


def _failed_check_reason(stream: Stream) -> Column:
    if stream.check is None:
        return F.lit(None).cast("string")
    passed = to_column(stream.check, stream.schema, F.col("event"))
    return F.when(~passed, F.lit(f"failed-check: {stream.check}"))


def _too_far_ahead_reason(stream: Stream) -> Column:
    limit_text = duration_text(stream.ahead_us)
    message = f"too-far-ahead: column {stream.time} is more than {limit_text} after its arrival"
    event_time_reason = F.when(F.col("lateness") < -stream.ahead_us, F.lit(message))
    if stream.arrival is None:
        return event_time_reason
    message = f"too-far-ahead: column {stream.arrival} is more than {limit_text} after the log took it"
    ahead_us = F.col("arrival") - F.unix_micros("timestamp")
    return F.coalesce(event_time_reason, F.when(ahead_us > stream.ahead_us, F.lit(message)))


def _output_topic(stream: Stream) -> Column:
    late_topic = stream.dropped if stream.late.then == "drop" else stream.late_topic
    is_skipped = F.col("passed_over") if isinstance(stream, Changes) else F.lit(False)
    return (
        F.when(is_skipped, stream.dropped)
        .when(F.col("reason").isNotNull(), stream.dead)
        .when(F.col("lateness") > stream.late.until_us, late_topic)
        .otherwise(stream.clean)
    )


def _output_headers(stream: Stream) -> Column:
    """The headers of an output record: the raw position first, as readers expect, then the trace context, if any."""
    gate_headers, traceparent = _gate_headers(stream), _traceparent_value()
    return F.when(traceparent.isNull(), gate_headers).otherwise(
        F.concat(gate_headers, F.array(header_struct(TRACEPARENT_HEADER, traceparent)))
    )


def _traceparent_value() -> Column:
    value = first_header(TRACEPARENT_HEADER)
    return F.when(F.length(value) == TRACEPARENT_LENGTH, value)


def _gate_headers(stream: Stream) -> Column:
    """The gate's headers for each output topic."""
    values: dict[RecordHeader[Any], Column] = {
        OFFSET_HEADER: F.col("offset"),
        ARRIVAL_HEADER: F.col("arrival"),
        LATENESS_HEADER: F.coalesce(F.col("lateness"), F.lit(0)),
        REASON_HEADER: F.col("reason"),
        TOPIC_HEADER: F.col("topic"),
        PARTITION_HEADER: F.col("partition"),
    }
    return (
        F.when(F.col("fate") == stream.dead, header_array(DEAD_LETTER_HEADERS, values))
        .when(F.col("fate") == stream.clean, header_array(POSITION_HEADERS, values))
        .otherwise(header_array(LATE_HEADERS, values))
    )
