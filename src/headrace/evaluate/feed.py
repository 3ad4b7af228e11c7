"""What outcomes are made of, as rows of one shape: a model's predictions, its labels, and the clock.

fraud.predictions ──┐
chargebacks.clean ──┼──▶ rows by bucket of their id ──▶ cases
fraud.clock ────────┘    (the clock has no id: it moves Spark's watermark, and nothing else does)
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.durations import UNITS_US
from headrace.declare.terms import terms_of
from headrace.evaluate.buckets import CHANGES, CLOCK, Buckets, grain_us
from headrace.evaluate.told import Feed, labels, scored
from headrace.lake.rows import typed
from headrace.stream.records import records_of
from headrace.stream.watermark import DRAINING_MARGIN_US

BUCKETS = 64
# Recorded time passes quicker than the clock: a batch has days of it, and what is due within hours is due at once.
RECORDED_BUCKETS, RECORDED_GRAIN_US = 16, 6 * UNITS_US["h"]
PARTITIONS = 2
CLOCKED = "clocked"


def changes(spark: SparkSession, feed: Feed) -> DataFrame:
    """The changes of a model's outcomes, as a stream."""
    of_predictions, of_labels = feed.landings
    predicted = scored(typed(_records(spark, feed, of_predictions.topic), of_predictions), feed)
    labelled = labels(typed(_records(spark, feed, of_labels.topic), of_labels), feed)
    told = _clocked(predicted, feed).unionByName(_clocked(labelled, feed))
    if not feed.tells_its_own_time:  # the first of a union says which column is the clock
        told = _clock(spark, feed).unionByName(told)
    bucket = F.pmod(F.xxhash64("id"), F.lit(_buckets(feed))).cast("int")
    return (
        told.withColumn("bucket", bucket)
        .groupBy("bucket")
        .transformWithState(Buckets(terms_of(feed.declared), _grain_us(feed)), CHANGES, "Update", "EventTime")
    )


def _buckets(feed: Feed) -> int:
    """How many ids are called for together: so many calls a batch."""
    return RECORDED_BUCKETS if feed.tells_its_own_time else BUCKETS


def _grain_us(feed: Feed) -> int:
    """How near ids have to be due that are looked at together."""
    return RECORDED_GRAIN_US if feed.tells_its_own_time else grain_us(feed.declared.within_us)


def _records(spark: SparkSession, feed: Feed, topic: str, start: str = "earliest") -> DataFrame:
    return records_of(spark, feed.broker, [topic], start, feed.records_at_once)


def _clocked(rows: DataFrame, feed: Feed) -> DataFrame:
    if not feed.tells_its_own_time:
        return rows.withColumn(CLOCKED, F.lit(None).cast("timestamp"))
    clocked = rows.withColumn(CLOCKED, F.timestamp_micros("arrival_us"))
    # Partitions, and scorers behind gates, may be this far apart in a time that passes quicker than the clock.
    return clocked.withWatermark(CLOCKED, f"{DRAINING_MARGIN_US} microseconds")


def _clock(spark: SparkSession, feed: Feed) -> DataFrame:
    """The times that were told; those of before this query are about what it has not read."""
    told = _records(spark, feed, feed.model.clock, "latest").select(
        F.col("partition"),
        F.lit(CLOCK).alias("kind"),
        *(
            F.lit(None).cast("string").alias(name)
            for name in ("id", "version", "role", "decision", "segment", "features")
        ),
        *(F.lit(None).cast("bigint").alias(name) for name in ("time_us", "arrival_us", "offset")),
        F.lit(None).cast("double").alias("value"),
        F.timestamp_micros(F.col("value").cast("string").cast("bigint")).alias(CLOCKED),
    )
    return told.withWatermark(CLOCKED, "0 seconds")
