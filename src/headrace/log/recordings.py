"""Recordings: files of events, in the order of one of their columns.

A Parquet file or a CSV has a column for each of the schema's; a file of JSON lines has the events themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from headrace.declare import table_files
from headrace.declare.schema import Column, Kind
from headrace.declare.stream import Stream
from headrace.errors import HeadraceError
from headrace.log.replay import Recorded
from headrace.tiles.events import timestamp_us

AT_ONCE = 4096
LAST = np.iinfo(np.int64).max
ARROW_TYPES = table_files.ARROW_TYPES | {"timestamp": pa.timestamp("us")}  # in UTC
ISO_8601 = "%Y-%m-%dT%H:%M:%SZ"

Row = dict[str, Any]
Rows = Callable[[Sequence[int]], Iterator[tuple[Row, bytes]]]  # the rows of these places, each with its JSON


class UnfitRecording(HeadraceError):
    """A file that holds no events of its stream."""


@dataclass(frozen=True)
class Recording:
    """The events of a file; `order_by` names the column they are ordered and paced by."""

    stream: Stream
    file: Path
    order_by: str
    times: np.ndarray[Any, np.dtype[np.int64]]
    rows: Rows

    def __len__(self) -> int:
        return len(self.times)

    def events(self, from_us: int | None = None, limit: int | None = None) -> Iterator[Recorded]:
        """The events in order, from a time on, at most so many; those without a time come last, in the file's order."""
        order = np.argsort(self.times, kind="stable")
        if from_us is not None:
            order = order[self.times[order] >= from_us]
        taken = order[:limit].tolist()
        for index, (row, value) in zip(taken, self.rows(taken), strict=True):
            time_us = int(self.times[index])
            yield Recorded(None if time_us == LAST else time_us, _key(row.get(self.stream.key)), value)


def open_recording(stream: Stream, file: Path, order_by: str | None = None) -> Recording:
    """The recording in a file, ordered by a column; without one by `arrival=`, or `time=` where the stream has none."""
    order_by = order_by or stream.arrival or stream.time
    if not file.is_file():
        raise UnfitRecording(f"There is no file {str(file)!r}. Give a recording: .parquet, .csv, .jsonl or .ndjson.")
    try:
        times, rows = _opened(stream, file, order_by)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise UnfitRecording(f"{file} cannot be read as events of {stream.name!r}: {problem}") from problem
    times_us = np.array([LAST if time_us is None else time_us for time_us in times], np.int64)
    if len(times_us) and (times_us == LAST).all():
        raise UnfitRecording(f"{file}: no row has a time in column {order_by!r}. Name another with --order-by.")
    return Recording(stream, file, order_by, times_us, rows)


def _opened(stream: Stream, file: Path, order_by: str) -> tuple[list[int | None], Rows]:
    match file.suffix:
        case ".parquet":
            return _table(pyarrow.parquet.read_table(file), stream, file, order_by)
        case ".csv":
            return _table(_csv(stream, file), stream, file, order_by)
        case ".jsonl" | ".ndjson" | ".json":
            return _lines(file, order_by)
    raise UnfitRecording(f"{file} is no recording that can be read. Give .parquet, .csv, .jsonl or .ndjson.")


def _csv(stream: Stream, file: Path) -> pa.Table:
    """Every column as its schema says, an empty field is null; times stay text, as a producer may write them."""
    types = {c.name: pa.string() if c.kind is Kind.TIMESTAMP else ARROW_TYPES[c.type] for c in stream.schema}
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(file, convert_options=options)


def _table(table: pa.Table, stream: Stream, file: Path, order_by: str) -> tuple[list[int | None], Rows]:
    _require_column(table, order_by, file)
    return _times_us(table[order_by]), events_of(table, stream, file)


def events_of(table: pa.Table, stream: Stream, source: object) -> Rows:
    """The rows of a table as events of a stream; `source` is what errors call the table."""
    for name in stream.needed.values():
        _require_column(table, name, source)
    sent = [column for column in stream.schema if column.name in table.column_names]
    events = pa.table({column.name: _column(table[column.name], column, source) for column in sent})
    doubles = [column.name for column in sent if column.kind is Kind.DOUBLE]

    def rows(taken: Sequence[int]) -> Iterator[tuple[Row, bytes]]:
        for start in range(0, len(taken), AT_ONCE):
            for row in events.take(taken[start : start + AT_ONCE]).to_pylist():
                yield row, orjson.dumps(_finite(row, doubles))

    return rows


def _require_column(table: pa.Table, name: str, source: object) -> None:
    if name not in table.column_names:
        found = ", ".join(table.column_names)
        raise UnfitRecording(f"{source} has no column {name!r}. Rename one of {found}, or declare the stream so.")


def _column(values: pa.ChunkedArray, column: Column, source: object) -> pa.ChunkedArray:
    """The values as their column says; times that are written as text or numbers are sent as they are."""
    if column.kind is Kind.TIMESTAMP:
        return pc.strftime(_utc(values), ISO_8601) if _are_moments(values) else values
    try:
        return values.cast(ARROW_TYPES[column.type])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise UnfitRecording(
            f"{source}: column {column.name!r} is {values.type} and cannot be read as {column.type}: {problem}"
        ) from problem


def _times_us(values: pa.ChunkedArray) -> list[int | None]:
    if _are_moments(values):
        found: list[int | None] = _utc(values).cast(pa.int64()).to_pylist()
        return found
    return [_time_us(value) for value in values.to_pylist()]


def _are_moments(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_timestamp(values.type) or pa.types.is_date(values.type))


def _utc(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    # Finer than a microsecond is cut off, as everywhere.
    return moments.cast(ARROW_TYPES["timestamp"], safe=False)


def _lines(file: Path, order_by: str) -> tuple[list[int | None], Rows]:
    lines = file.read_bytes().splitlines()
    times = [_time_us(_object(line, f"{file}:{number}").get(order_by)) for number, line in enumerate(lines, 1)]

    def rows(taken: Sequence[int]) -> Iterator[tuple[Row, bytes]]:
        return ((orjson.loads(lines[index]), lines[index]) for index in taken)

    return times, rows


def _object(line: bytes, where: str) -> Row:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        raise UnfitRecording(f"{where}: not JSON: {problem}. Write one JSON object a line.") from problem
    if not isinstance(row, dict):
        raise UnfitRecording(f"{where}: {line[:80].decode()} is not an object. Write one JSON object a line.")
    return row


def _time_us(value: Any) -> int | None:
    """Microseconds of what a producer may write as a time; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return timestamp_us(str(value))


def _key(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _finite(row: Row, doubles: Iterable[str]) -> Row:
    """The row with NaN and the infinities as the text that stands for them: JSON has no numbers for them."""
    for name in doubles:
        value = row[name]
        if value is not None and not isfinite(value):
            row[name] = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return row
