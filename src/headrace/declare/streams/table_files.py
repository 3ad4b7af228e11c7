"""Reads table files with pyarrow: their columns, and their values as plain lists."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from headrace.declare.streams.lookup_table import TableBroken
from headrace.declare.streams.schema import Column, Kind, Schema
from headrace.errors import DeclarationError

ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def read_file_schema(file: Path, where: str) -> Schema:
    """The columns of a file that features can use; lists and structs are left out."""
    try:
        arrow_schema = _read_arrow_schema(file)
    except (pa.ArrowException, OSError) as failure:
        raise DeclarationError(f"{where}: {str(file)!r} cannot be read: {failure}") from failure
    typed_columns = [(field.name, _to_spark_type(field.type)) for field in arrow_schema]
    return Schema(tuple(Column(name, type) for name, type in typed_columns if type is not None))


def _read_arrow_schema(file: Path) -> pa.Schema:
    if file.suffix == ".csv":
        with pyarrow.csv.open_csv(file) as reader:
            return reader.schema
    return pyarrow.parquet.read_schema(file)


def _to_spark_type(type: pa.DataType) -> str | None:
    """The Spark type that holds every value of an Arrow type."""
    if pa.types.is_dictionary(type):
        return _to_spark_type(type.value_type)
    for is_type, name in _SPARK_TYPES:
        if is_type(type):
            return name
    return None


_SPARK_TYPES = (
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double"),
    (pa.types.is_decimal, "double"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_date, "timestamp"),
)


def read_columns(file: Path, schema: Schema) -> dict[str, list[Any]]:
    """The columns of a schema from a file, as plain lists: None for null, times in µs."""
    try:
        table = _read_table(file, schema)
        return {column.name: _to_python_list(table[column.name], column) for column in schema}
    except (pa.ArrowException, OSError, KeyError) as failure:
        raise TableBroken(
            f"{str(file)!r} does not hold "
            f"{', '.join(f'{declared_column.name} {declared_column.type}' for declared_column in schema)}: {failure}. "
            "Correct the file, or declare its columns in schema=."
        ) from failure


def _read_table(file: Path, schema: Schema) -> pa.Table:
    if file.suffix == ".csv":
        # The reader parses times with a zone and without.
        types = {column.name: ARROW_TYPES[column.type] for column in schema if column.kind is not Kind.TIMESTAMP}
        convert_options = pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(schema.names))
        return pyarrow.csv.read_csv(file, convert_options=convert_options)
    # One open file, never a folder of files: a table is read as of one moment.
    with file.open("rb") as source:
        return pyarrow.parquet.read_table(source, columns=list(schema.names))


def _to_python_list(column_data: pa.ChunkedArray, column: Column) -> list[Any]:
    is_time = column.kind is Kind.TIMESTAMP
    cast_data = column_data.cast(ARROW_TYPES[column.type], safe=not is_time)  # truncate to microseconds
    values: list[Any] = (cast_data.cast(pa.int64()) if is_time else cast_data).to_pylist()
    return values
