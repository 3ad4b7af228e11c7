"""The Parquet files of a table: how Spark names them, and what a log says of each."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_BOUND = 32
ROWS_AT_ONCE = 64  # each may hold texts of a megabyte
LAST_CHARACTER = "\U0010ffff"
LAST_TEXT = 8 * LAST_CHARACTER
ABOVE_ALL = LAST_TEXT.encode()
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_000_000  # the years 1 to 9999


def day_of(time_us: int) -> date:
    """The day a time is of.

    >>> day_of(-1).isoformat()
    '1969-12-31'
    """
    return (EPOCH + timedelta(microseconds=time_us)).date()


def spark_path(path: Path) -> str:
    """A local path as Spark takes it: with its scheme, and no character written in another way."""
    return f"file://{path}"


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """Rows, nulls, and the bounds of the columns whose bounds are exact, as Delta writes them down.

    What the footer does not tell is left out: Spark writes no statistics of a column whose least and greatest values
    are longer than 4 KB together, not even the number of nulls.
    """
    bounds, texts = _Bounds(), _TextBounds()
    for column in _columns(footer):
        bounds.widen(column)
        texts.widen(column)
    both = {side: of_numbers | texts.written()[side] for side, of_numbers in bounds.written().items()}
    return {"numRecords": footer.num_rows, **both, "nullCount": nulls_of(footer)}


def nulls_of(footer: pq.FileMetaData) -> dict[str, int]:
    """How many nulls each column has; a column of which the footer does not tell is left out."""
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for column in _columns(footer):
        if column.nulls is None:
            unknown.add(column.name)
        else:
            nulls[column.name] = nulls.get(column.name, 0) + column.nulls
    return {name: count for name, count in nulls.items() if name not in unknown}


def count_nulls(file: Path, columns: Iterable[str]) -> dict[str, int]:
    """How many nulls some columns of a file have, by reading them, a few rows at a time."""
    nulls = dict.fromkeys(columns, 0)
    for batch in pq.ParquetFile(file).iter_batches(ROWS_AT_ONCE, columns=list(nulls)) if nulls else ():
        for name in nulls:
            nulls[name] += batch[name].null_count
    return nulls


def exact_bounds(footer: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each column of whole numbers, days or moments, as a file has them."""
    bounds = _Bounds()
    for column in _columns(footer):
        bounds.widen(column)
    return bounds.exact()


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


def _columns(footer: pq.FileMetaData) -> Iterator[_ColumnChunk]:
    """Every column of every row group that is not within a list or a struct."""
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            if "." not in chunk.path_in_schema:
                yield _chunk(chunk, footer.schema.column(number).logical_type.type)


def _chunk(chunk: pq.ColumnChunkMetaData, logical_type: str) -> _ColumnChunk:
    known = chunk.statistics
    nulls = known.null_count if known is not None and known.has_null_count else None
    bounds = (known.min_raw, known.max_raw) if known is not None and known.has_min_max else None
    return _ColumnChunk(chunk.path_in_schema, chunk.physical_type, logical_type, chunk.num_values, nulls, bounds)


class _Bounds:
    """Least and greatest values, of whole numbers and timestamps; those of doubles pass over NaN."""

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[int, int]] = {}
        self._unknown: set[str] = set()
        self._times: set[str] = set()

    def widen(self, column: _ColumnChunk) -> None:
        if column.physical_type not in {"INT32", "INT64"} or column.is_all_null:
            return
        if column.bounds is None:
            self._unknown.add(column.name)
            return
        least, greatest = self._bounds.get(column.name, column.bounds)
        self._bounds[column.name] = min(least, column.bounds[0]), max(greatest, column.bounds[1])
        if column.logical_type == "TIMESTAMP":
            self._times.add(column.name)

    def exact(self) -> dict[str, tuple[int, int]]:
        return {name: both for name, both in self._bounds.items() if name not in self._unknown}

    def written(self) -> dict[str, dict[str, Any]]:
        sayable = {name: both for name, both in self.exact().items() if self._is_sayable(name, both)}
        return {
            "minValues": {name: self._text(name, least, 0) for name, (least, _) in sayable.items()},
            # Delta keeps milliseconds: a greatest value is the end of its millisecond, so that it still bounds.
            "maxValues": {name: self._text(name, greatest, 999) for name, (_, greatest) in sayable.items()},
        }

    def _is_sayable(self, name: str, bounds: tuple[int, int]) -> bool:
        return name not in self._times or FIRST_US <= bounds[0] <= bounds[1] <= LAST_US

    def _text(self, name: str, value: int, up_us: int) -> int | str:
        if name not in self._times:
            return value
        moment = EPOCH + timedelta(microseconds=value + up_us)
        return f"{moment:%Y-%m-%dT%H:%M:%S}".zfill(19) + f".{moment.microsecond // 1000:03d}Z"


class _TextBounds:
    """Least and greatest texts by their bytes, cut short.

    Told of every text: deltalake's datasets skip a file that has no bounds of one, whatever is asked for.
    """

    def __init__(self) -> None:
        self._bounds: dict[str, tuple[bytes, bytes]] = {}

    def widen(self, column: _ColumnChunk) -> None:
        if column.logical_type != "STRING":
            return
        least, greatest = self._bounds.get(column.name, (ABOVE_ALL, b""))
        if column.bounds is not None:
            self._bounds[column.name] = min(least, column.bounds[0]), max(greatest, column.bounds[1])
        elif column.is_all_null:
            self._bounds[column.name] = least, greatest
        else:  # too long for the file's own account
            self._bounds[column.name] = b"", ABOVE_ALL

    def written(self) -> dict[str, dict[str, Any]]:
        bounds = {name: (_text(least), _text(greatest)) for name, (least, greatest) in self._bounds.items()}
        return {
            "minValues": {name: "" if least is None else least[:LONGEST_BOUND] for name, (least, _) in bounds.items()},
            "maxValues": {name: LAST_TEXT if most is None else _above(most) for name, (_, most) in bounds.items()},
        }


def _text(value: bytes) -> str | None:
    """What bytes say; None where they are no text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _above(text: str) -> str:
    """A text that is short and not before another: cut where it is not the last character that is cut off.

    >>> _above("a" * 32), _above("a" * 33) == "a" * 32 + LAST_CHARACTER
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', True)
    """
    for end in range(LONGEST_BOUND, len(text)):
        if text[end] != LAST_CHARACTER:
            return text[:end] + LAST_CHARACTER
    return text
