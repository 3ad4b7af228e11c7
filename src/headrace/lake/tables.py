"""Reading events back, typed and placed alike: from the lake, or straight from the log."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.declare.stream import Stream
from headrace.lake.files import spark_path
from headrace.lake.landing import Landing, silver
from headrace.lake.logs import log_of
from headrace.lake.rows import records, rows


def silver_events(spark: SparkSession, lake_dir: Path, stream: Stream) -> DataFrame:
    """The clean events that have landed: the stream's columns, hr_arrival, hr_partition, hr_offset and hr_day."""
    return table_rows(spark, lake_dir, silver(stream))


def log_events(spark: SparkSession, broker: str, stream: Stream) -> DataFrame:
    """The same rows as `silver_events` gives, of everything that is in the clean log now."""
    landing = silver(stream)
    return rows(records(spark, broker, subscribe=landing.topic), landing, {})


def table_rows(spark: SparkSession, lake_dir: Path, landing: Landing) -> DataFrame:
    """The rows of a table as it is now; a column that older files do not have is null there."""
    folder = (lake_dir / landing.table).resolve()
    files = [spark_path(file.path) for file in log_of(folder).files()]
    if not files:
        return spark.createDataFrame([], landing.ddl)
    read = spark.read.schema(landing.ddl).option("basePath", spark_path(folder)).parquet(*files)
    return read.select(*(f"`{column.name}`" for column in landing.columns))
