"""Lanes: a query drains its backlog in micro-batches, then continues the same checkpoint in real time.

├── availableNow, 50,000 records a batch ──┤├── real time: milliseconds, a checkpoint now and then ──▶
lag > 10,000                               lag small
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.kafka.client.security_properties import spark_kafka_options
from headrace.spark.checkpoints.checkpoint_files import plan_first_batch, prepare_checkpoint
from headrace.spark.session.session import batch_metadata

BACKLOG_RECORDS = 10_000
DRAIN_BATCH_RECORDS = 50_000
KAFKA_SINK_OPTIONS = {"kafka.enable.idempotence": "true", "kafka.max.request.size": str(16 * 1024 * 1024)}


class Lane(Enum):
    """The mode in which a query runs."""

    REAL_TIME = "real-time"
    DRAINING = "draining"
    MICRO_BATCH = "micro-batch"


@dataclass(frozen=True)
class QuerySpec:
    """One query: its sources, its plan, and its checkpoint.

    A gate has neither views nor derived streams. `repair` removes the cause of a failure, if it can.
    """

    name: str
    stream: str
    views: tuple[str, ...]
    broker: str
    source_topics: tuple[str, ...]
    checkpoint: Path
    source_partitions: int
    shuffle_partitions: int
    shuffle_count: int
    linger_ms: int
    checkpoint_seconds: int
    build: Callable[[Sequence[DataFrame], Lane], DataFrame]
    first_batch_ends: tuple[int, ...] | None = None  # the end offsets of the first batch, if they matter
    derives: tuple[str, ...] = ()
    lane: Lane = Lane.REAL_TIME  # the fastest possible one
    emits_final_rows_only: bool = False  # emits no row before the watermark makes it final
    repair: Callable[[SparkSession, Exception], None] | None = None
    side_input: Callable[[], object] | None = None  # data in its plan besides its sources: new data restarts the query

    @property
    def task_slots(self) -> int:
        """A real-time query holds a task slot for each partition it reads and each partition of every shuffle."""
        return self.source_partitions + self.shuffle_partitions * self.shuffle_count


def start_query(spark: SparkSession, spec: QuerySpec, lane: Lane) -> StreamingQuery:
    """Start a query in a lane; it continues from its checkpoint, or starts with the earliest record."""
    prepare_checkpoint(spec.checkpoint)
    spark.conf.set("spark.sql.shuffle.partitions", spec.shuffle_partitions)
    if spec.first_batch_ends is not None:
        (topic,) = spec.source_topics
        plan_first_batch(spec.checkpoint, topic, spec.first_batch_ends, batch_metadata(spark))
    records = spec.build([_read_topic(spark, spec, topic, lane) for topic in spec.source_topics], lane)
    writer = (
        records.writeStream.format("kafka")
        .queryName(spec.name)
        .options(**spark_kafka_options(spec.broker))
        .option("kafka.linger.ms", spec.linger_ms)
        .options(**KAFKA_SINK_OPTIONS)
        .option("checkpointLocation", spec.checkpoint.as_uri())
        .outputMode("append" if spec.emits_final_rows_only else "update")
    )
    if lane is Lane.REAL_TIME:
        return writer.trigger(realTime=f"{spec.checkpoint_seconds} seconds").start()  # type: ignore[call-overload,no-any-return]  # 4.3, untyped
    if lane is Lane.DRAINING:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime="0 seconds").start()


def _read_topic(spark: SparkSession, spec: QuerySpec, topic: str, lane: Lane) -> DataFrame:
    reader = (
        spark.readStream.format("kafka")
        .options(**spark_kafka_options(spec.broker))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
    )
    if lane is Lane.DRAINING:
        reader = reader.option("maxOffsetsPerTrigger", DRAIN_BATCH_RECORDS)
    return reader.load()
