"""A Spark driver that exercises the usual code paths, so that Java archives the classes it loads."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.declare.streams.stream import Stream
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.spark.session.class_archive import QUIET_OPTIONS
from headrace.spark.session.session import SparkSessionConfig, start_session

STREAM = Stream("events", schema="id string, amount double, at timestamp", id="id", key="id", time="at")
RECORD_COUNT, QUERY_SECONDS = 100, 10


def _events(spark: SparkSession, broker: str) -> DataFrame:
    options = {"subscribe": STREAM.name, "startingOffsets": "earliest", "includeHeaders": "true"}
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker).options(**options).load()
    parsed = F.from_json(F.col("value").cast("string"), "id string, amount double").alias("event")
    return records.select("key", "partition", "offset", "timestamp", "headers", parsed).select("*", "event.*")


def _deduplicate_to_kafka(events: DataFrame, broker: str, folder: Path) -> None:
    """Deduplicate in real-time mode, as a gate does."""
    deduplicated = events.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["id"])
    rows = deduplicated.select("key", F.to_json(F.struct("id", "amount")).alias("value"))
    options = {"kafka.bootstrap.servers": broker, "topic": f"{STREAM.name}.clean"}
    writer = rows.writeStream.format("kafka").options(**options).outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "gate"))
    query = writer.trigger(realTime="5 seconds").start()  # type: ignore[call-overload]  # 4.3, untyped
    query.awaitTermination(QUERY_SECONDS)
    query.stop()


def _aggregate_to_files(events: DataFrame, folder: Path) -> None:
    """Aggregate in micro-batches to files, as tiles and the lake do."""

    def write(rows: DataFrame, _batch: int) -> None:
        rows.write.mode("append").parquet(str(folder / "rows"))

    windows = events.withWatermark("timestamp", "1 minute").groupBy(F.window("timestamp", "10 seconds"), "key")
    aggregated = windows.agg(F.count("*"), F.sum("amount"), F.min("amount"), F.max("amount"))
    writer = aggregated.writeStream.outputMode("update").option("checkpointLocation", str(folder / "tiles"))
    writer.foreachBatch(write).trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS)


def main(broker: str, folder: Path, archive: Path, jars: Sequence[Path]) -> None:
    """Exercise a driver, and let it write the archive at its exit."""
    ensure_topics(broker, [STREAM], [], [])
    with Producer(broker) as producer:
        for number in range(RECORD_COUNT):
            producer.send(STREAM.name, {"id": str(number), "amount": 1.5}, key=str(number % 9))
    options = (f"-XX:ArchiveClassesAtExit={archive}", *QUIET_OPTIONS)
    spark = start_session(SparkSessionConfig(None, 6, jars, folder / "spark", java_options=options))
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    events = _events(spark, broker)
    _deduplicate_to_kafka(events, broker, folder)
    _aggregate_to_files(events, folder)
    spark.read.parquet(str(folder / "rows")).groupBy("key").count().toPandas()
    java_process: subprocess.Popen[bytes] = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001
    spark.stop()
    java_process.communicate()  # Java ends when its standard input closes


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), [Path(jar) for jar in sys.argv[4:]])
