"""Records of the log as a stream of rows, so many at once."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from headrace.log.dialects import spark_words

RECORDS_A_POLL = 5_000  # ten times Kafka's default: Spark asks for the log's ends after each


def records_of(spark: SparkSession, broker: str, topics: Sequence[str], start: str, at_once: int) -> DataFrame:
    """Records of topics; `start` is where a query begins that has no checkpoint, in the words of Spark's source."""
    return (
        spark.readStream.format("kafka")
        .options(**spark_words(broker))
        .option("kafka.max.poll.records", RECORDS_A_POLL)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", start)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", at_once)
        .load()
    )
