"""Records of the log as rows of a table, each exactly once."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headrace.kafka.client.security_properties import spark_kafka_options
from headrace.lake.ingestion.table_mapping import OFFSET, PARTITION, TableMapping
from headrace.spark.gate.json_parser import parse_json, to_event
from headrace.spark.gate.kafka_source import MAX_POLL_RECORDS

ORDER_COLUMN = "hr_order"  # the offset in the source topic; a copy's hr_offset is that of its original


def read_records(spark: SparkSession, broker: str, **options: str) -> DataFrame:
    """Records of the log, selected by options of Spark's Kafka source."""
    reader = spark.read.format("kafka").options(**spark_kafka_options(broker)).option("includeHeaders", "true")
    return reader.option("kafka.max.poll.records", MAX_POLL_RECORDS).options(**options).load()


def to_new_rows(records: DataFrame, mapping: TableMapping, last_offsets: Mapping[int, int]) -> DataFrame:
    """The table's rows of records that are not in it yet; `last_offsets` has the last hr_offset of each partition."""
    table_rows = to_table_rows(records, mapping, F.col("offset").alias(ORDER_COLUMN))
    if not mapping.may_replay:
        return table_rows.drop(ORDER_COLUMN)
    new_rows = table_rows.where(
        F.col(OFFSET) > last_offset_column(last_offsets, F.col(PARTITION))
    )  # also drops records of other producers, which have no offset header
    earlier_rows = Window.partitionBy(PARTITION).orderBy(ORDER_COLUMN).rowsBetween(Window.unboundedPreceding, -1)
    max_earlier_offset = F.coalesce(F.max(OFFSET).over(earlier_rows), F.lit(-1))
    return (
        new_rows.withColumn("ahead", max_earlier_offset)
        .where(F.col(OFFSET) > F.col("ahead"))
        .drop("ahead", ORDER_COLUMN)
    )


def to_table_rows(records: DataFrame, mapping: TableMapping, *extra_columns: Column) -> DataFrame:
    """Records as the rows of a table, replays included."""
    if mapping.event_stream is not None:
        records = records.withColumn(
            "event", to_event(parse_json(F.col("value"), mapping.event_stream), mapping.event_stream)
        )
    values = (F.expr(column.expression).cast(column.type).alias(column.name) for column in mapping.columns)
    return records.select(*values, *extra_columns)


def last_offset_column(last_offsets: Mapping[int, int], partition: Column) -> Column:
    """The last offset of a row's partition; −1 where it has none."""
    offsets = [last_offsets.get(partition_number, -1) for partition_number in range(max(last_offsets, default=-1) + 1)]
    return F.coalesce(F.get(F.lit(offsets or [-1]).cast("array<bigint>"), partition), F.lit(-1))
