"""What outcomes are made of, as rows of one shape: a model's predictions, its labels, and the clock.

fraud.predictions ──┐
chargebacks.clean ──┼──▶ rows by bucket of their id ──▶ cases
fraud.clock ────────┘    (the clock has no id: it moves Spark's watermark, and nothing else does)
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.durations import UNITS_US
from headrace.declare.labels import Labels
from headrace.declare.model import Model
from headrace.declare.schema import TYPE_OF_KIND
from headrace.declare.stream import Stream
from headrace.evaluate.buckets import CHANGES, CLOCK, LABEL, SCORED, Buckets, grain_us
from headrace.evaluate.outcomes import terms_of
from headrace.lake.files import FIRST_US
from headrace.lake.rows import RECORDS_A_POLL
from headrace.stream.events import event_of, parsed
from headrace.stream.watermark import DRAINING_MARGIN_US

RECORDS_A_BATCH = 20_000  # of each topic: bounds the memory of a batch, and how long it takes a core
BUCKETS = 64
# Recorded time passes quicker than the clock: a batch has days of it, and what is due within hours is due at once.
RECORDED_BUCKETS, RECORDED_GRAIN_US = 16, 6 * UNITS_US["h"]
PARTITIONS = 2
CLOCKED = "clocked"


@dataclass(frozen=True)
class Feed:
    """A model with labels, and the log they are in."""

    model: Model
    broker: str
    records_a_batch: int = RECORDS_A_BATCH

    @property
    def declared(self) -> Labels:
        if self.model.labels is None:
            raise TypeError(f"{self.model.name} has no labels")
        return self.model.labels

    @property
    def labels(self) -> Stream:
        return self.declared.stream

    @property
    def tells_its_own_time(self) -> bool:
        """Whether arrivals are those of recorded history: then records move the clock, not the time it is now."""
        return self.labels.arrival is not None

    @property
    def buckets(self) -> int:
        """How many ids are called for together: so many calls a batch."""
        return RECORDED_BUCKETS if self.tells_its_own_time else BUCKETS

    @property
    def grain_us(self) -> int:
        """How near ids have to be due that are looked at together."""
        return RECORDED_GRAIN_US if self.tells_its_own_time else grain_us(self.declared.within_us)


def changes(spark: SparkSession, feed: Feed) -> DataFrame:
    """The changes of a model's outcomes, as a stream."""
    told = _scored(_records(spark, feed, feed.model.predictions), feed).unionByName(
        _labels(_records(spark, feed, feed.labels.clean), feed)
    )
    if not feed.tells_its_own_time:  # the first of a union says which column is the clock
        told = _clock(spark, feed).unionByName(told)
    bucket = F.pmod(F.xxhash64("id"), F.lit(feed.buckets)).cast("int")
    return (
        told.withColumn("bucket", bucket)
        .groupBy("bucket")
        .transformWithState(Buckets(terms_of(feed.declared), feed.grain_us), CHANGES, "Update", "EventTime")
    )


def _records(spark: SparkSession, feed: Feed, topic: str, start: str = "earliest") -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", feed.broker)
        .option("kafka.max.poll.records", RECORDS_A_POLL)
        .option("subscribe", topic)
        .option("startingOffsets", start)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", feed.records_a_batch)
        .load()
    )


def _scored(records: DataFrame, feed: Feed) -> DataFrame:
    """Predictions; what is none is passed over: whoever can write to the topic must not be able to stop this.

    Nothing has a time after the log took it: an event of tomorrow would be remembered until then.
    """
    time_us = _by_now(F.coalesce(_told("event_time_us", "bigint"), _told("decided_at_us", "bigint")))
    arrival_us = _by_now(F.coalesce(_told("arrival_us", "bigint"), _told("decided_at_us", "bigint")))
    rows = _rows(
        records,
        feed,
        kind=F.lit(SCORED),
        id=F.col("key").cast("string"),
        version=_told("version", "string"),
        role=_told("role", "string"),
        decision=_told("decision", "string"),
        segment=_segment(feed.model),
        time_us=time_us,
        arrival_us=arrival_us,
        offset=F.col("offset"),
        value=F.coalesce(_told("score", "double"), F.lit(float("nan"))),
    )
    return rows.where(f"id IS NOT NULL AND version IS NOT NULL AND role IS NOT NULL AND time_us > {FIRST_US}")


def _labels(records: DataFrame, feed: Feed) -> DataFrame:
    """Clean labels, by the place they had in the raw log."""
    stream = feed.labels
    read = records.withColumn("event", event_of(parsed(F.col("value"), stream), stream))
    event = F.col("event")
    rows = _rows(
        read,
        feed,
        kind=F.lit(LABEL),
        id=event.getField(feed.model.stream.id).cast("string"),
        version=F.lit(None).cast("string"),
        role=F.lit(None).cast("string"),
        decision=F.lit(None).cast("string"),
        segment=F.lit(None).cast("string"),
        time_us=F.unix_micros(event.getField(stream.time)),
        arrival_us=_header(1),
        offset=_header(0),
        value=event.getField(feed.declared.value).cast("double"),
    )
    return rows.where("id IS NOT NULL AND time_us IS NOT NULL AND offset IS NOT NULL AND value IS NOT NULL")


def _rows(records: DataFrame, feed: Feed, **columns: Column) -> DataFrame:
    typed = records.select(F.col("partition"), *(column.alias(name) for name, column in columns.items()))
    if not feed.tells_its_own_time:
        return typed.withColumn(CLOCKED, F.lit(None).cast("timestamp"))
    clocked = typed.withColumn(CLOCKED, F.timestamp_micros("arrival_us"))
    # Partitions, and scorers behind gates, may be this far apart in a time that passes quicker than the clock.
    return clocked.withWatermark(CLOCKED, f"{DRAINING_MARGIN_US} microseconds")


def _clock(spark: SparkSession, feed: Feed) -> DataFrame:
    """The times that were told; those of before this query are about what it has not read."""
    told = _records(spark, feed, feed.model.clock, "latest").select(
        F.col("partition"),
        F.lit(CLOCK).alias("kind"),
        *(F.lit(None).cast("string").alias(name) for name in ("id", "version", "role", "decision", "segment")),
        *(F.lit(None).cast("bigint").alias(name) for name in ("time_us", "arrival_us", "offset")),
        F.lit(None).cast("double").alias("value"),
        F.timestamp_micros(F.col("value").cast("string").cast("bigint")).alias(CLOCKED),
    )
    return told.withWatermark(CLOCKED, "0 seconds")


def _segment(model: Model) -> Column:
    """The values of its segments, typed, as JSON; one that is not known is left out."""
    kinds = {name: TYPE_OF_KIND[model.known.column(name, model.name).kind] for name in model.segments}
    values = [_told(f"features['{name}']", kind).alias(name) for name, kind in kinds.items()]
    return F.to_json(F.struct(*values)) if values else F.lit("{}")


def _told(name: str, kind: str) -> Column:
    return F.get_json_object(F.col("value").cast("string"), f"$.{name}").try_cast(kind)


def _by_now(time_us: Column) -> Column:
    return F.when(time_us.isNotNull(), F.least(time_us, F.unix_micros("timestamp")))


def _header(number: int) -> Column:
    """A number the gate wrote; it writes its headers in one order."""
    return F.col("headers")[number].getField("value").cast("string").cast("bigint")
