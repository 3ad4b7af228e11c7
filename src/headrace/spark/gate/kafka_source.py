"""Kafka records as a streaming DataFrame, with a limited batch size."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from headrace.kafka.client.security_properties import spark_kafka_options

MAX_POLL_RECORDS = 5_000  # ten times Kafka's default: Spark requests the end offsets after each poll


def read_record_stream(
    spark: SparkSession, broker: str, topics: Sequence[str], starting_offsets: str, max_batch_records: int
) -> DataFrame:
    """Records of topics; `starting_offsets` is for a query without a checkpoint, in the form of Spark's source."""
    return (
        spark.readStream.format("kafka")
        .options(**spark_kafka_options(broker))
        .option("kafka.max.poll.records", MAX_POLL_RECORDS)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", starting_offsets)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false")
        .option("maxOffsetsPerTrigger", max_batch_records)
        .load()
    )
