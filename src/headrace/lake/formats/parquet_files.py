"""The Parquet files of a table: their paths for Spark, and their statistics for table logs."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_BOUND_LENGTH = 32
BATCH_ROWS = 64  # a row may hold texts of a megabyte
MAX_CHARACTER = "\U0010ffff"
MAX_TEXT = 8 * MAX_CHARACTER
MAX_TEXT_BYTES = MAX_TEXT.encode()
MIN_TIMESTAMP_US, MAX_TIMESTAMP_US = -62_135_596_800_000_000, 253_402_300_799_000_000  # the years 1 to 9999


def to_date(time_us: int) -> date:
    """The day of a time.

    >>> to_date(-1).isoformat()
    '1969-12-31'
    """
    return (EPOCH + timedelta(microseconds=time_us)).date()


def spark_path(path: Path) -> str:
    """A local path for Spark: with its scheme, and without percent-encoding."""
    return f"file://{path}"


def delta_statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """Rows, null counts, and the bounds of columns whose bounds are exact, in Delta's form.

    Statistics that the footer lacks are omitted: Spark writes none, not even the number of nulls, for a column whose
    least and greatest values together are longer than 4 KB.
    """
    number_bounds, text_bounds = _NumberBounds(), _TextBounds()
    for column in _read_column_chunks(footer):
        number_bounds.widen(column)
        text_bounds.widen(column)
    bounds = {
        side: values | text_bounds.to_statistics()[side] for side, values in number_bounds.to_statistics().items()
    }
    return {"numRecords": footer.num_rows, **bounds, "nullCount": null_counts(footer)}


def null_counts(footer: pq.FileMetaData) -> dict[str, int]:
    """The number of nulls of each column; omits columns without statistics in the footer."""
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for column in _read_column_chunks(footer):
        if column.nulls is None:
            unknown.add(column.name)
        else:
            nulls[column.name] = nulls.get(column.name, 0) + column.nulls
    return {name: count for name, count in nulls.items() if name not in unknown}


def count_nulls(file: Path, columns: Iterable[str]) -> dict[str, int]:
    """Count the nulls of columns by reading the file, a few rows at a time."""
    nulls = dict.fromkeys(columns, 0)
    for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=list(nulls)) if nulls else ():
        for name in nulls:
            nulls[name] += batch[name].null_count
    return nulls


def exact_bounds(footer: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each column of integers, dates or timestamps in a file."""
    bounds = _NumberBounds()
    for column in _read_column_chunks(footer):
        bounds.widen(column)
    return bounds.exact_bounds()


class _ColumnChunk(NamedTuple):
    """A column in one row group: its types, its rows, and its statistics in the footer."""

    name: str
    physical_type: str
    logical_type: str
    rows: int
    nulls: int | None
    bounds: tuple[Any, Any] | None

    @property
    def is_all_null(self) -> bool:
        return self.nulls == self.rows


def _read_column_chunks(footer: pq.FileMetaData) -> Iterator[_ColumnChunk]:
    """The top-level columns of every row group."""
    for group_index in range(footer.num_row_groups):
        for column_index in range(footer.num_columns):
            chunk = footer.row_group(group_index).column(column_index)
            if "." not in chunk.path_in_schema:
                yield _to_column_chunk(chunk, footer.schema.column(column_index).logical_type.type)


def _to_column_chunk(chunk: pq.ColumnChunkMetaData, logical_type: str) -> _ColumnChunk:
    chunk_statistics = chunk.statistics
    nulls = chunk_statistics.null_count if chunk_statistics is not None and chunk_statistics.has_null_count else None
    bounds = (
        (chunk_statistics.min_raw, chunk_statistics.max_raw)
        if chunk_statistics is not None and chunk_statistics.has_min_max
        else None
    )
    return _ColumnChunk(chunk.path_in_schema, chunk.physical_type, logical_type, chunk.num_values, nulls, bounds)


class _NumberBounds:
    """Least and greatest values of integers, timestamps and doubles; those of doubles ignore NaN."""

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[int, int]] = {}
        self._unknown_columns: set[str] = set()
        self._timestamp_columns: set[str] = set()

    def widen(self, column: _ColumnChunk) -> None:
        if column.physical_type not in {"INT32", "INT64"} or column.is_all_null:
            return
        if column.bounds is None:
            self._unknown_columns.add(column.name)
            return
        least, greatest = self._bounds.get(column.name, column.bounds)
        self._bounds[column.name] = min(least, column.bounds[0]), max(greatest, column.bounds[1])
        if column.logical_type == "TIMESTAMP":
            self._timestamp_columns.add(column.name)

    def exact_bounds(self) -> dict[str, tuple[int, int]]:
        return {name: min_max for name, min_max in self._bounds.items() if name not in self._unknown_columns}

    def to_statistics(self) -> dict[str, dict[str, Any]]:
        representable = {
            name: min_max for name, min_max in self.exact_bounds().items() if self._is_representable(name, min_max)
        }
        return {
            "minValues": {name: self._to_json_value(name, least, 0) for name, (least, _) in representable.items()},
            # Delta stores milliseconds: a greatest value is rounded up to the end of its millisecond.
            "maxValues": {
                name: self._to_json_value(name, greatest, 999) for name, (_, greatest) in representable.items()
            },
        }

    def _is_representable(self, name: str, bounds: tuple[int, int]) -> bool:
        return name not in self._timestamp_columns or MIN_TIMESTAMP_US <= bounds[0] <= bounds[1] <= MAX_TIMESTAMP_US

    def _to_json_value(self, name: str, value: int, round_up_us: int) -> int | str:
        if name not in self._timestamp_columns:
            return value
        timestamp = EPOCH + timedelta(microseconds=value + round_up_us)
        return f"{timestamp:%Y-%m-%dT%H:%M:%S}".zfill(19) + f".{timestamp.microsecond // 1000:03d}Z"


class _TextBounds:
    """Least and greatest texts by their bytes, truncated.

    Every text column needs them: deltalake's datasets skip a file without such bounds, whatever the filter.
    """

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[bytes, bytes]] = {}

    def widen(self, column: _ColumnChunk) -> None:
        if column.logical_type != "STRING":
            return
        least, greatest = self._bounds.get(column.name, (MAX_TEXT_BYTES, b""))
        if column.bounds is not None:
            self._bounds[column.name] = min(least, column.bounds[0]), max(greatest, column.bounds[1])
        elif column.is_all_null:
            self._bounds[column.name] = least, greatest
        else:  # too long for the file's statistics
            self._bounds[column.name] = b"", MAX_TEXT_BYTES

    def to_statistics(self) -> dict[str, dict[str, Any]]:
        bounds = {
            name: (_decode_text(least), _decode_text(greatest)) for name, (least, greatest) in self._bounds.items()
        }
        return {
            "minValues": {
                name: "" if least is None else least[:MAX_BOUND_LENGTH] for name, (least, _) in bounds.items()
            },
            "maxValues": {
                name: MAX_TEXT if upper is None else _shorten_upper_bound(upper) for name, (_, upper) in bounds.items()
            },
        }


def _decode_text(value: bytes) -> str | None:
    """The text of UTF-8 bytes; None for other bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _shorten_upper_bound(text: str) -> str:
    """A short text that is not less than another: truncated, and extended by the greatest character.

    >>> _shorten_upper_bound("a" * 32), _shorten_upper_bound("a" * 33) == "a" * 32 + MAX_CHARACTER
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', True)
    """
    for end in range(MAX_BOUND_LENGTH, len(text)):
        if text[end] != MAX_CHARACTER:
            return text[:end] + MAX_CHARACTER
    return text
