"""Files of spines as whoever made them writes them: by pandas, Polars, Spark, a database's export, or by hand."""

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StringType, StructField, StructType

from headrace.errors import HeadraceError
from headrace.lake.spine_times import nanos_to_micros

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
ARROW_FILES = (".arrow", ".feather")
CSV = {"header": "true", "escape": '"'}  # RFC 4180, as pandas writes it: a quote is doubled, a backslash is itself
INDEX = "__index_level_"  # how pandas names an index that has no name
NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"


class UnknownFormat(HeadraceError):
    """A file whose name does not tell what is in it."""


class UnreadableSpine(HeadraceError):
    """A file of a spine that is not there, is broken, or has columns that Spark cannot read."""


def require_known(spine: Path, *written: Path) -> None:
    """Refuse files whose names do not tell what is in them, and a spine that is not there."""
    _require_suffix(spine, (*FORMATS, *ARROW_FILES))
    for file in written:
        _require_suffix(file, tuple(FORMATS))
    if not spine.exists():
        raise UnreadableSpine(f"There is no file {str(spine)!r}. Give the spine's own with --spine FILE.")


def _require_suffix(file: Path, known: Collection[str]) -> None:
    if file.suffix not in known:
        raise UnknownFormat(f"{str(file)!r}: its kind is not known. Name it with one of {', '.join(known)}.")


def read_spine(spark: SparkSession, file: Path, keys: Collection[str], time: str) -> DataFrame:
    """The rows of a spine; its keys that are texts are read as they are written where a file has no types."""
    if file.suffix in ARROW_FILES:
        frame = spark.createDataFrame(_plain(_arrow_table(file)))
    elif FORMATS[file.suffix] == "csv":
        frame = _read_csv(spark, file, keys, time)
    elif FORMATS[file.suffix] == "parquet":
        frame = _read_parquet(spark, file)
    else:
        frame = spark.read.format(FORMATS[file.suffix]).load(_uri(file))
    return frame.drop(*(name for name in frame.columns if name.startswith(INDEX)))


def write_rows(frame: DataFrame, file: Path) -> None:
    """Write rows to a file in the format that its name tells."""
    kind = FORMATS[file.suffix]
    options = CSV if kind == "csv" else {}
    frame.write.format(kind).options(**options).mode("overwrite").save(_uri(file))


def _uri(file: Path) -> str:
    return file.resolve().as_uri()


def _read_csv(spark: SparkSession, file: Path, keys: Collection[str], time: str) -> DataFrame:
    """With types that are guessed, but for the key and the time: 007 is no 7, and a time is read by its own rules."""
    reader = spark.read.options(**CSV, multiLine="true")
    guessed = reader.option("inferSchema", "true").csv(_uri(file)).schema
    texts = {*keys, *(one.name for one in guessed if one.name == time and not isinstance(one.dataType, IntegralType))}
    typed = [StructField(one.name, StringType()) if one.name in texts else one for one in guessed.fields]
    return reader.schema(StructType(typed)).csv(_uri(file))


def _read_parquet(spark: SparkSession, file: Path) -> DataFrame:
    """With times in nanoseconds, which Spark has no type for, as times in microseconds."""
    schema = _parquet_schema(file)
    for field in schema:
        if pa.types.is_time(field.type):
            raise UnreadableSpine(
                f"The spine's column {field.name!r} is {field.type}, which Spark cannot read. Drop it, or write it as "
                "text."
            )
    spark.conf.set(NANOS_AS_LONG, "true")  # and left so: rows are read with the setting of that time
    frame = spark.read.parquet(_uri(file))
    numbers = {name for name, kind in frame.dtypes if kind == "bigint"}  # times of old Parquet are times to Spark
    nanos = [field.name for field in schema if _is_nanos(field.type) and field.name in numbers]
    return frame.withColumns({name: F.timestamp_micros(nanos_to_micros(name)) for name in nanos}) if nanos else frame


def _is_nanos(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _parquet_schema(file: Path) -> pa.Schema:
    first = file if file.is_file() else next(iter(sorted(file.rglob("*.parquet"))), None)
    if first is None:
        raise UnreadableSpine(f"The folder {str(file)!r} has no Parquet files. Give the spine's own with --spine FILE.")
    try:
        return pq.read_schema(first)
    except (pa.ArrowException, OSError) as failure:
        raise UnreadableSpine(f"{str(first)!r} is no Parquet file that can be read: {failure}") from failure


def _arrow_table(file: Path) -> pa.Table:
    try:
        with pa.memory_map(str(file)) as source:
            try:
                return pa.ipc.open_file(source).read_all()
            except pa.ArrowInvalid:  # written as a stream
                source.seek(0)
                return pa.ipc.open_stream(source).read_all()
    except (pa.ArrowException, OSError) as failure:
        raise UnreadableSpine(f"{str(file)!r} is no Arrow file that can be read: {failure}") from failure


def _plain(table: pa.Table) -> pa.Table:
    """Columns in types that Spark has: times in microseconds and UTC, in which those without a zone are; no codes."""
    for number, field in enumerate(table.schema):
        kind = _plain_type(field.type)
        if kind != field.type:
            column = table.column(number).cast(kind, safe=False)
            table = table.set_column(number, pa.field(field.name, kind), column)
    return table


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    return kind.value_type if pa.types.is_dictionary(kind) else kind
