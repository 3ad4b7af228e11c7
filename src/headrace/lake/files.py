"""The Parquet files of a table: how Spark names them, and what a log says of each."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_BOUND = 32
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
    """Rows, nulls, and the bounds of the columns whose bounds are exact, as Delta writes them down."""
    bounds, texts = _Bounds(), _TextBounds()
    for column in _columns(footer):
        bounds.widen(column.path_in_schema, column)
        texts.widen(column.path_in_schema, column)
    both = {side: of_numbers | texts.written()[side] for side, of_numbers in bounds.written().items()}
    return {"numRecords": footer.num_rows, **both, "nullCount": nulls_of(footer)}


def nulls_of(footer: pq.FileMetaData) -> dict[str, int]:
    """How many nulls each column has."""
    nulls: dict[str, int] = {}
    for column in _columns(footer):
        nulls[column.path_in_schema] = nulls.get(column.path_in_schema, 0) + column.statistics.null_count
    return nulls


def exact_bounds(footer: pq.FileMetaData) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each column of whole numbers, days or moments, as a file has them."""
    bounds = _Bounds()
    for column in _columns(footer):
        bounds.widen(column.path_in_schema, column)
    return bounds.exact()


def _columns(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    """Those of which something is known, and not a list's or a struct's."""
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            column = footer.row_group(group).column(number)
            if "." not in column.path_in_schema and column.statistics is not None:
                yield column


class _Bounds:
    """Least and greatest values, of whole numbers and timestamps; those of doubles pass over NaN."""

    def __init__(self) -> None:
        self._least: dict[str, int] = {}
        self._greatest: dict[str, int] = {}
        self._times: set[str] = set()

    def widen(self, name: str, column: pq.ColumnChunkMetaData) -> None:
        known = column.statistics
        if column.physical_type not in {"INT32", "INT64"} or not known.has_min_max:
            return
        self._least[name] = min(known.min_raw, self._least.get(name, known.min_raw))
        self._greatest[name] = max(known.max_raw, self._greatest.get(name, known.max_raw))
        if known.logical_type.type == "TIMESTAMP":
            self._times.add(name)

    def exact(self) -> dict[str, tuple[int, int]]:
        return {name: (least, self._greatest[name]) for name, least in self._least.items()}

    def written(self) -> dict[str, dict[str, Any]]:
        sayable = [name for name in self._least if self._sayable(name)]
        return {
            "minValues": {name: self._text(name, self._least[name], 0) for name in sayable},
            # Delta keeps milliseconds: a greatest value is the end of its millisecond, so that it still bounds.
            "maxValues": {name: self._text(name, self._greatest[name], 999) for name in sayable},
        }

    def _sayable(self, name: str) -> bool:
        return name not in self._times or FIRST_US <= self._least[name] <= self._greatest[name] <= LAST_US

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

    def widen(self, name: str, column: pq.ColumnChunkMetaData) -> None:
        known = column.statistics
        if known.logical_type.type != "STRING":
            return
        least, greatest = self._bounds.get(name, (ABOVE_ALL, b""))
        if known.has_min_max:
            self._bounds[name] = min(least, known.min_raw), max(greatest, known.max_raw)
        elif known.null_count < column.num_values:  # too long for the file's own account
            self._bounds[name] = b"", ABOVE_ALL
        else:
            self._bounds[name] = least, greatest

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
