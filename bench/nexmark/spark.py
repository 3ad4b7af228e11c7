"""Headrace's engine: queries on Spark with Headrace's session, sink and lanes, as a process that takes orders.

python -m bench.nexmark.spark BROKER FOLDER
"""

import time
from collections.abc import Mapping
from pathlib import Path

import click
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.nexmark.catalogue import QUERIES, STREAMS, Query
from bench.nexmark.orders import obey
from headrace.embedded_servers.jars import jar_paths
from headrace.spark.execution.lanes import DRAIN_BATCH_RECORDS, KAFKA_SINK_OPTIONS, Lane
from headrace.spark.session.session import SparkSessionConfig, start_session

DELAY = "4 seconds"  # so much later than another an event of an earlier time may come
CHECKPOINT = "5 minutes"  # of the real-time lane
PARTITIONS = 2
SLOTS = 8  # a real-time query holds one for each partition it reads and each of its shuffle


class Engine:
    """Runs one query at a time."""

    def __init__(self, spark: SparkSession, broker: str, folder: Path) -> None:
        self._spark, self._broker, self._folder = spark, broker, folder
        self._query: StreamingQuery | None = None
        spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)

    def drain(self, query: str, sources: Mapping[str, str], to: str) -> float:
        """Answer a query from all there is in its topics; how long it took, in seconds."""
        began = time.monotonic()
        self._start(QUERIES[query], sources, to, Lane.DRAINING).awaitTermination()
        return time.monotonic() - began

    def begin(self, query: str, sources: Mapping[str, str], to: str, lane: str) -> None:
        """Start a query that runs until it is stopped."""
        self._query = self._start(QUERIES[query], sources, to, Lane(lane))

    def stop(self) -> None:
        """Stop it; what it failed of meanwhile is raised."""
        query, self._query = self._query, None
        if query is not None:
            failure = query.exception()
            query.stop()
            if failure is not None:
                raise failure

    def _start(self, query: Query, sources: Mapping[str, str], to: str, lane: Lane) -> StreamingQuery:
        streams = {name: self._stream(name, sources[name], lane) for name in query.reads}
        writer = (
            records(query.of(streams), query)
            .writeStream.format("kafka")
            .queryName(to)
            .option("kafka.bootstrap.servers", self._broker)
            .option("topic", to)
            .options(**KAFKA_SINK_OPTIONS)
            .option("checkpointLocation", (self._folder / "checkpoints" / to).as_uri())
            .outputMode("update" if query.updates or lane is Lane.REAL_TIME else "append")
        )
        if lane is Lane.REAL_TIME:
            return writer.trigger(realTime=CHECKPOINT).start()  # type: ignore[call-overload,no-any-return]  # untyped
        if lane is Lane.DRAINING:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 seconds").start()

    def _stream(self, name: str, topic: str, lane: Lane) -> DataFrame:
        reader = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._broker)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
        )
        if lane is Lane.DRAINING:
            reader = reader.option("maxOffsetsPerTrigger", DRAIN_BATCH_RECORDS)
        event = F.from_json(F.col("value").cast("string"), STREAMS[name])
        events = timed(reader.load().select(event.alias("event")).select("event.*"))
        return events.withWatermark("happened", DELAY) if "happened" in events.columns else events


def timed(events: DataFrame) -> DataFrame:
    """Milliseconds as times."""
    return events.select(*(_time(name) if name.endswith("_ms") else F.col(name) for name in events.columns))


def _time(name: str) -> Column:
    return F.timestamp_millis(name).alias(name.removesuffix("_ms"))


def records(rows: DataFrame, query: Query) -> DataFrame:
    """Rows as records: JSON, under the row's key where it has one."""
    key = F.to_json(F.struct(*query.key)) if query.key else F.lit(None).cast("string")
    return rows.select(key.alias("key"), F.to_json(F.struct(*rows.columns)).alias("value"))


@click.command()
@click.argument("broker")
@click.argument("folder", type=click.Path(path_type=Path))
def main(broker: str, folder: Path) -> None:
    """Start Spark, then execute orders."""
    spark = start_session(SparkSessionConfig(None, SLOTS, jar_paths("spark"), folder / "scratch"))
    obey(Engine(spark, broker, folder))
    spark.stop()


if __name__ == "__main__":
    main()
