"""Reads events with the same columns from the lake, or directly from the log."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.declare.streams.stream import Stream
from headrace.lake.formats.parquet_files import spark_path
from headrace.lake.formats.table_format import open_table_format
from headrace.lake.ingestion.record_rows import read_records, to_new_rows
from headrace.lake.ingestion.table_mapping import TableMapping, silver_mapping


def read_silver_events(spark: SparkSession, lake_dir: Path, stream: Stream) -> DataFrame:
    """The clean events in the lake: the stream's columns, hr_arrival, hr_partition, hr_offset and hr_day."""
    return read_table_rows(spark, lake_dir, silver_mapping(stream))


def read_log_events(spark: SparkSession, broker: str, stream: Stream) -> DataFrame:
    """The same rows as `read_silver_events` returns, from everything that is in the clean log now."""
    mapping = silver_mapping(stream)
    return to_new_rows(read_records(spark, broker, subscribe=mapping.topic), mapping, {})


def read_table_rows(spark: SparkSession, lake_dir: Path, mapping: TableMapping) -> DataFrame:
    """The current rows of a table; a column that older files lack is null there."""
    folder = (lake_dir / mapping.table).resolve()
    files = [spark_path(file.path) for file in open_table_format(folder).list_files()]
    if not files:
        return spark.createDataFrame([], mapping.ddl)
    frame = spark.read.schema(mapping.ddl).option("basePath", spark_path(folder)).parquet(*files)
    return frame.select(*(f"`{column.name}`" for column in mapping.columns))
