"""Reading events back, typed and placed alike: from the lake, or straight from the log."""

from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession

from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.lake.files import paths_of, spark_path
from headrace.lake.landing import Landing, silver
from headrace.lake.rows import records, rows


class LakeTableMissing(HeadraceError):
    """A table that should be in the lake and is not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"There is no table at {str(folder)!r}. Run `headrace up APP` until its first events have landed, "
            "or give the folder it wrote to with --lake DIR."
        )


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
    files = files_of(folder)
    if not files:
        return spark.createDataFrame([], landing.ddl)
    read = spark.read.schema(landing.ddl).option("basePath", spark_path(folder)).parquet(*files)
    return read.select(*(f"`{column.name}`" for column in landing.columns))


def files_of(folder: Path) -> list[str]:
    """The files of a table's newest version."""
    try:
        table = DeltaTable(folder)
    except TableNotFoundError:
        raise LakeTableMissing(folder) from None
    return [spark_path(path) for path in paths_of(table, folder)]
