"""The gate: each raw record goes to exactly one of STREAM.clean, .late, .dead or .dropped, judged by itself alone.

    payments ──▶ not JSON? wrong type? id, key, time missing? check failed? too far ahead? ──▶ payments.dead
             ──▶ later than the stream allows? ──▶ payments.late (or payments.dropped)
             ──▶ payments.clean

Of captured changes it takes the envelope apart: a clean one is the row and what is told of it, as one plain event.
Every output keeps the raw partition number and carries its offset, so a reader knows a replay when it meets one.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.declare.changes import Changes
from headrace.declare.derivation import Derived
from headrace.declare.durations import duration_text
from headrace.declare.stream import Stream
from headrace.log.schemas.known import Known
from headrace.log.traceparent import LENGTH, TRACEPARENT
from headrace.stream import envelopes
from headrace.stream.decoded import decoded
from headrace.stream.events import event_of, parsed, unreadable
from headrace.stream.expressions import to_column

RAISED = "headrace.raised"  # on a raw record of a derived stream: the row it is made of raised this


def gate(raw: DataFrame, stream: Stream, known: Known | None = None) -> DataFrame:
    """Kafka records of the raw topic → Kafka records for the stream's outputs; `known` are its registered schemas.

    Events go on as JSON, however they came; dead letters are the bytes as they came.
    """
    kept, is_dead = F.col("fate") != stream.dropped, F.col("fate") == stream.dead
    is_rewritten = stream.encoded is not None or isinstance(stream, Changes)
    value = F.when(is_dead, F.col("value")).otherwise(F.col("written")) if is_rewritten else F.col("value")
    return judged(raw, stream, known).select(
        F.col("fate").alias("topic"),
        F.when(kept, F.col("key")).alias("key"),
        F.when(kept, value).alias("value"),
        F.col("partition"),
        _headers(stream).alias("headers"),
    )


def judged(raw: DataFrame, stream: Stream, known: Known | None = None) -> DataFrame:
    """Raw records with their event, its lateness in microseconds, why it is dead or null, and the topic it goes to."""
    read = _read(raw, stream, known)
    timed = read.withColumn("arrival", _arrival_us(stream)).withColumn(
        "lateness", F.col("arrival") - F.unix_micros(F.col("event").getField(stream.time))
    )
    return timed.withColumn("reason", _reason(stream)).withColumn("fate", _fate(stream))


def _read(raw: DataFrame, stream: Stream, known: Known | None) -> DataFrame:
    """Raw records with the event of each, why it has none and, where it is not the bytes themselves, its JSON."""
    if isinstance(stream, Changes):
        return envelopes.unwrapped(raw, stream)
    return _json(raw, stream) if stream.encoded is None else decoded(raw, stream, known or Known())


def _json(raw: DataFrame, stream: Stream) -> DataFrame:
    value = F.col("value")
    read = raw.withColumn("json", parsed(value, stream)).withColumn("event", event_of(F.col("json"), stream))
    return read.withColumn("unread", unreadable(value, stream))


def _arrival_us(stream: Stream) -> Column:
    """When the log took the record, or when the stream's own column says it arrived."""
    appended_us = F.unix_micros("timestamp")
    if stream.arrival is None:
        return appended_us
    # A dead letter without that column still arrived at some time.
    return F.coalesce(F.unix_micros(F.col("event").getField(stream.arrival)), appended_us)


def _reason(stream: Stream) -> Column:
    """Why a record is a dead letter, as a sentence that starts with a code; null where it is none."""
    judged = [F.col("unread"), _incomplete(stream), _failed_check(stream), _too_far_ahead(stream)]
    return F.coalesce(*([_raised()] if isinstance(stream, Derived) else []), *judged)


def _raised() -> Column:
    """Of a derived stream: the row that could not be derived, as whoever derives it has said."""
    return F.concat(F.lit("raised: "), _first_header(RAISED).cast("string"))


def _incomplete(stream: Stream) -> Column:
    event = F.col("event")
    return F.coalesce(
        *(
            F.when(event.getField(column).isNull(), F.lit(f"missing-{part}: column {column} is absent or null"))
            for part, column in stream.needed.items()
        )
    )


def _failed_check(stream: Stream) -> Column:
    if stream.check is None:
        return F.lit(None).cast("string")
    passed = to_column(stream.check, stream.schema, F.col("event"))
    return F.when(~passed, F.lit(f"failed-check: {stream.check}"))


def _too_far_ahead(stream: Stream) -> Column:
    ahead = duration_text(stream.ahead_us)
    sentence = f"too-far-ahead: column {stream.time} is more than {ahead} after its arrival"
    of_event = F.when(F.col("lateness") < -stream.ahead_us, F.lit(sentence))
    if stream.arrival is None:
        return of_event
    sentence = f"too-far-ahead: column {stream.arrival} is more than {ahead} after the log took it"
    ahead_us = F.col("arrival") - F.unix_micros("timestamp")
    return F.coalesce(of_event, F.when(ahead_us > stream.ahead_us, F.lit(sentence)))


def _fate(stream: Stream) -> Column:
    late_topic = stream.dropped if stream.late.then == "drop" else stream.late_topic
    passed_over = F.col("passed_over") if isinstance(stream, Changes) else F.lit(False)
    return (
        F.when(passed_over, stream.dropped)
        .when(F.col("reason").isNotNull(), stream.dead)
        .when(F.col("lateness") > stream.late.until_us, late_topic)
        .otherwise(stream.clean)
    )


def _headers(stream: Stream) -> Column:
    """What the gate says of a record, its place first, as readers count on; then the trace it is part of, if any."""
    said, trace = _said(stream), _traceparent()
    return F.when(trace.isNull(), said).otherwise(F.concat(said, F.array(_named(TRACEPARENT, trace))))


def _traceparent() -> Column:
    value = _first_header(TRACEPARENT)
    return F.when(F.length(value) == LENGTH, value)


def _first_header(name: str) -> Column:
    """The first such header of a record; null without one. No lambda: Spark generates no code for those."""
    names, values = F.col("headers.key"), F.col("headers.value")
    return F.get(values, F.array_position(names, F.lit(name)).cast("int") - 1)


def _said(stream: Stream) -> Column:
    place = [_header("offset", F.col("offset")), _header("arrival", F.col("arrival"))]
    why = [
        _header("reason", F.col("reason")),
        _header("topic", F.col("topic")),
        _header("partition", F.col("partition")),
    ]
    return (
        F.when(F.col("fate") == stream.dead, F.array(*place, *why))
        .when(F.col("fate") == stream.clean, F.array(*place))
        .otherwise(F.array(*place, _header("lateness", F.coalesce(F.col("lateness"), F.lit(0)))))
    )


def _header(name: str, value: Column) -> Column:
    return _named(f"headrace.{name}", value.cast("string").cast("binary"))


def _named(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))
