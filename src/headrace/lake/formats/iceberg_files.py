"""Iceberg's manifest entry of a Parquet file that Spark has written."""

from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, PrimitiveType

from headrace.lake.formats.parquet_files import exact_bounds, null_counts
from headrace.lake.ingestion.table_mapping import DAY

EPOCH = date(1970, 1, 1)


def to_data_file(path: Path, table: TableMetadata) -> DataFile:
    """The entry that adds a file to a table: its rows, nulls, and the bounds of columns whose bounds are exact."""
    footer = pq.read_metadata(path)
    fields = {field.name: field for field in table.schema().fields}
    nulls = {fields[name].field_id: count for name, count in null_counts(footer).items()}
    bounds = {
        fields[name].field_id: _encode_bounds(fields[name], min_max) for name, min_max in exact_bounds(footer).items()
    }
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=Record(_day_number(path)),
        record_count=footer.num_rows,
        file_size_in_bytes=path.stat().st_size,
        column_sizes={},
        value_counts=dict.fromkeys(nulls, footer.num_rows),
        null_value_counts=nulls,
        nan_value_counts={},
        lower_bounds={field_id: least for field_id, (least, _) in bounds.items()},
        upper_bounds={number: greatest for number, (_, greatest) in bounds.items()},
        spec_id=table.default_spec_id,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        split_offsets=None,
    )


def data_file_path(file: DataFile) -> Path:
    """The path of a file."""
    return Path(file.file_path.removeprefix("file://"))


def data_file_day(file: DataFile) -> date | None:
    """The day of a file's rows."""
    return EPOCH + timedelta(days=file.partition[0]) if len(file.partition) else None


def _day_number(path: Path) -> int:
    return (date.fromisoformat(path.parent.name.removeprefix(f"{DAY}=")) - EPOCH).days


def _encode_bounds(field: NestedField, bounds: tuple[int, int]) -> tuple[bytes, bytes]:
    primitive_type: PrimitiveType = field.field_type  # type: ignore[assignment]  # only primitive types have bounds
    return to_bytes(primitive_type, bounds[0]), to_bytes(primitive_type, bounds[1])
