"""The Parquet files of a table: how Spark names them, and what a log says of each."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_BOUND_LENGTH = 32
BATCH_ROWS = 64  # each may hold texts of a megabyte
MAX_CHARACTER = "\U0010ffff"
MAX_TEXT = 8 * MAX_CHARACTER
MAX_TEXT_BYTES = MAX_TEXT.encode()
MIN_TIMESTAMP_US, MAX_TIMESTAMP_US = -62_135_596_800_000_000, 253_402_300_799_000_000  # the years 1 to 9999


def to_date(time_us: int) -> date:
    """The day a time is of.

    >>> to_date(-1).isoformat()
    '1969-12-31'
    """
    return (EPOCH + timedelta(microseconds=time_us)).date()


def spark_path(path: Path) -> str:
    """A local path as Spark takes it: with its scheme, and no character written in another way."""
    return f"file://{path}"


def delta_statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """Rows, nulls, and the bounds of the columns whose bounds are exact, as Delta writes them down.

    What the footer does not tell is left out: Spark writes no statistics of a column whose least and greatest values
    are longer than 4 KB together, not even the number of nulls.
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
    """How many nulls each column has; a column of which the footer does not tell is left out."""
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for column in _read_column_chunks(footer):
        if column.nulls is None:
            unknown.add(column.name)
        else:
            nulls[column.name] = nulls.get(column.name, 0) + column.nulls
    return {name: count for name, count in nulls.items() if name not in unknown}


def count_nulls(file: Path, columns: Iterable[str]) -> dict[str, int]:
    """How many nulls some columns of a file have, by reading them, a few rows at a time."""
    nulls = dict.fromkeys(columns, 0)
    for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=list(nulls)) if nulls else ():
        for name in nulls:
            nulls[name] += batch[name].null_count
    return nulls


def exact_bounds(footer: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each column of whole numbers, days or moments, as a file has them."""
    bounds = _NumberBounds()
    for column in _read_column_chunks(footer):
        bounds.widen(column)
    return bounds.exact_bounds()


class _ColumnChunk(NamedTuple):
    """A column in one row group: its types, its rows, and what of it the footer tells."""

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
    """Every column of every row group that is not within a list or a struct."""
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
    """Least and greatest values, of whole numbers and timestamps; those of doubles pass over NaN."""

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
            # Delta keeps milliseconds: a greatest value is the end of its millisecond, so that it still bounds.
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
    """Least and greatest texts by their bytes, cut short.

    Told of every text: deltalake's datasets skip a file that has no bounds of one, whatever is asked for.
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
        else:  # too long for the file's own account
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
    """What bytes say; None where they are no text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _shorten_upper_bound(text: str) -> str:
    """A text that is short and not before another: cut where it is not the last character that is cut off.

    >>> _shorten_upper_bound("a" * 32), _shorten_upper_bound("a" * 33) == "a" * 32 + MAX_CHARACTER
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', True)
    """
    for end in range(MAX_BOUND_LENGTH, len(text)):
        if text[end] != MAX_CHARACTER:
            return text[:end] + MAX_CHARACTER
    return text
