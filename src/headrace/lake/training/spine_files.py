"""Reads spine files of any common writer: pandas, Polars, Spark, a database's export, or an editor."""

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType, StructField, StructType

from headrace.errors import HeadraceError
from headrace.lake.training.spine_times import nanos_to_micros

FORMAT_OF_SUFFIX = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
ARROW_SUFFIXES = (".arrow", ".feather")
CSV_OPTIONS = {
    "header": "true",
    "escape": '"',
}  # RFC 4180, as pandas writes it: a quote is doubled, a backslash is itself
PANDAS_INDEX_PREFIX = "__index_level_"  # pandas' name of an unnamed index
NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"


class UnknownFileFormatError(HeadraceError):
    """A file whose suffix does not reveal its format."""


class UnreadableSpineError(HeadraceError):
    """A spine file that is missing, corrupt, or has columns that Spark cannot read."""


def require_known_formats(spine: Path, *outputs: Path) -> None:
    """Reject files with an unknown suffix, and a missing spine."""
    _require_suffix(spine, (*FORMAT_OF_SUFFIX, *ARROW_SUFFIXES))
    for file in outputs:
        _require_suffix(file, tuple(FORMAT_OF_SUFFIX))
    if not spine.exists():
        raise UnreadableSpineError(f"There is no file {str(spine)!r}. Give the spine's own with --spine FILE.")


def _require_suffix(file: Path, suffixes: Collection[str]) -> None:
    if file.suffix not in suffixes:
        raise UnknownFileFormatError(
            f"{str(file)!r}: its kind is not known. Name it with one of {', '.join(suffixes)}."
        )


def read_spine(spark: SparkSession, file: Path, keys: Collection[str], time: str) -> DataFrame:
    """The rows of a spine; text keys are read unchanged where a file has no types."""
    if file.suffix in ARROW_SUFFIXES:
        frame = spark.createDataFrame(_to_spark_types(_arrow_table(file)))
    elif FORMAT_OF_SUFFIX[file.suffix] == "csv":
        frame = _read_csv(spark, file, keys, time)
    elif FORMAT_OF_SUFFIX[file.suffix] == "parquet":
        frame = _read_parquet(spark, file)
    else:
        frame = spark.read.format(FORMAT_OF_SUFFIX[file.suffix]).load(_uri(file))
    return frame.drop(*(name for name in frame.columns if name.startswith(PANDAS_INDEX_PREFIX)))


def write_rows(frame: DataFrame, file: Path) -> None:
    """Write rows to a file in the format of its suffix."""
    file_format = FORMAT_OF_SUFFIX[file.suffix]
    options = CSV_OPTIONS if file_format == "csv" else {}
    frame.write.format(file_format).options(**options).mode("overwrite").save(_uri(file))


def _uri(file: Path) -> str:
    return file.resolve().as_uri()


def _read_csv(spark: SparkSession, file: Path, keys: Collection[str], time: str) -> DataFrame:
    """Read with inferred types, except for the key and the time: 007 is not 7, and times have their own rules."""
    reader = spark.read.options(**CSV_OPTIONS, multiLine="true")
    inferred = reader.option("inferSchema", "true").csv(_uri(file)).schema
    text_columns = {
        *keys,
        *(field.name for field in inferred if field.name == time and not isinstance(field.dataType, IntegralType)),
    }
    fields = [StructField(one.name, StringType()) if one.name in text_columns else one for one in inferred.fields]
    return reader.schema(StructType(fields)).csv(_uri(file))


def _read_parquet(spark: SparkSession, file: Path) -> DataFrame:
    """Read times in nanoseconds, which Spark lacks, as times in microseconds."""
    schema = _parquet_schema(file)
    for field in schema:
        if pa.types.is_time(field.type):
            raise UnreadableSpineError(
                f"The spine's column {field.name!r} is {field.type}, which Spark cannot read. Drop it, or write it as "
                "text."
            )
    spark.conf.set(NANOS_AS_LONG, "true")  # stays set: rows are read lazily, with the setting of that time
    frame = spark.read.parquet(_uri(file))
    bigint_columns = {
        name for name, spark_type in frame.dtypes if spark_type == "bigint"
    }  # Spark reads times of old Parquet files as such
    nanosecond_columns = [field.name for field in schema if _is_nanos(field.type) and field.name in bigint_columns]
    return (
        frame.withColumns({name: F.timestamp_micros(nanos_to_micros(name)) for name in nanosecond_columns})
        if nanosecond_columns
        else frame
    )


def _is_nanos(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns")


def _parquet_schema(file: Path) -> pa.Schema:
    first_file = file if file.is_file() else next(iter(sorted(file.rglob("*.parquet"))), None)
    if first_file is None:
        raise UnreadableSpineError(
            f"The folder {str(file)!r} has no Parquet files. Give the spine's own with --spine FILE."
        )
    try:
        return pq.read_schema(first_file)
    except (pa.ArrowException, OSError) as failure:
        raise UnreadableSpineError(f"{str(first_file)!r} is no Parquet file that can be read: {failure}") from failure


def _arrow_table(file: Path) -> pa.Table:
    try:
        with pa.memory_map(str(file)) as source:
            try:
                return pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:  # in the streaming format
                source.seek(0)
                return pa.ipc.open_stream(source).read_all()
    except (pa.ArrowException, OSError) as failure:
        raise UnreadableSpineError(f"{str(file)!r} is no Arrow file that can be read: {failure}") from failure


def _to_spark_types(table: pa.Table) -> pa.Table:
    """Columns in types that Spark has: times in microseconds and UTC, the default zone; no dictionary codes."""
    for index, field in enumerate(table.schema):
        arrow_type = _to_spark_type(field.type)
        if arrow_type != field.type:
            column = table.column(index).cast(arrow_type, safe=False)
            table = table.set_column(index, pa.field(field.name, arrow_type), column)
    return table


def _to_spark_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", "UTC")
    if pa.types.is_date64(arrow_type):
        return pa.date32()
    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
