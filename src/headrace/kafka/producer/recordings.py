"""Recordings: files of events, ordered by one of their columns.

A Parquet or CSV file has a column for each column of the schema; a file of JSON lines has the events themselves.
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

from headrace.declare.streams import table_files
from headrace.declare.streams.schema import Column, Kind
from headrace.declare.streams.stream import Stream
from headrace.errors import HeadraceError
from headrace.kafka.producer.replay import RecordedEvent
from headrace.tiles.events.event_parser import parse_timestamp_us

ROWS_PER_BATCH = 4096
NO_TIME_US = np.iinfo(np.int64).max
ARROW_TYPES = table_files.ARROW_TYPES | {"timestamp": pa.timestamp("us")}  # in UTC
ISO_8601 = "%Y-%m-%dT%H:%M:%SZ"

RecordingRow = dict[str, Any]
RecordingRowReader = Callable[
    [Sequence[int]], Iterator[tuple[RecordingRow, bytes]]
]  # the rows at these indexes, each with its JSON


class InvalidRecordingError(HeadraceError):
    """A file without valid events of its stream."""


@dataclass(frozen=True)
class Recording:
    """The events of a file; `order_by` names the column that orders and paces them."""

    stream: Stream
    file: Path
    order_by: str
    times_us: np.ndarray[Any, np.dtype[np.int64]]
    read_rows: RecordingRowReader

    def __len__(self) -> int:
        return len(self.times_us)

    def events(self, from_us: int | None = None, limit: int | None = None) -> Iterator[RecordedEvent]:
        """The events in order, from a time on, up to a limit; those without a time come last, in the file's order."""
        order = np.argsort(self.times_us, kind="stable")
        if from_us is not None:
            order = order[self.times_us[order] >= from_us]
        indexes = order[:limit].tolist()
        for index, (row, value) in zip(indexes, self.read_rows(indexes), strict=True):
            time_us = int(self.times_us[index])
            yield RecordedEvent(
                None if time_us == NO_TIME_US else time_us, _encode_key(row.get(self.stream.key)), value
            )


def open_recording(stream: Stream, file: Path, order_by: str | None = None) -> Recording:
    """The recording in a file, ordered by a column; the default is `arrival=`, else `time=` of the stream."""
    order_by = order_by or stream.arrival or stream.time
    if not file.is_file():
        raise InvalidRecordingError(
            f"There is no file {str(file)!r}. Give a recording: .parquet, .csv, .jsonl or .ndjson."
        )
    try:
        times, read_rows = _read_file(stream, file, order_by)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRecordingError(f"{file} cannot be read as events of {stream.name!r}: {error}") from error
    times_us = np.array([NO_TIME_US if time_us is None else time_us for time_us in times], np.int64)
    if len(times_us) and (times_us == NO_TIME_US).all():
        raise InvalidRecordingError(f"{file}: no row has a time in column {order_by!r}. Name another with --order-by.")
    return Recording(stream, file, order_by, times_us, read_rows)


def _read_file(stream: Stream, file: Path, order_by: str) -> tuple[list[int | None], RecordingRowReader]:
    match file.suffix:
        case ".parquet":
            return _read_table(pyarrow.parquet.read_table(file), stream, file, order_by)
        case ".csv":
            return _read_table(_read_csv(stream, file), stream, file, order_by)
        case ".jsonl" | ".ndjson" | ".json":
            return _read_lines(file, order_by)
    raise InvalidRecordingError(f"{file} is no recording that can be read. Give .parquet, .csv, .jsonl or .ndjson.")


def _read_csv(stream: Stream, file: Path) -> pa.Table:
    """Each column with the schema's type, an empty field as null; times stay text, as a producer may write them."""
    types = {
        column.name: pa.string() if column.kind is Kind.TIMESTAMP else ARROW_TYPES[column.type]
        for column in stream.schema
    }
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(file, convert_options=options)


def _read_table(
    table: pa.Table, stream: Stream, file: Path, order_by: str
) -> tuple[list[int | None], RecordingRowReader]:
    _require_column(table, order_by, file)
    return _column_times_us(table[order_by]), table_event_reader(table, stream, file)


def table_event_reader(table: pa.Table, stream: Stream, source: object) -> RecordingRowReader:
    """The rows of a table as events of a stream; `source` is the table's name for errors."""
    for name in stream.required_columns.values():
        _require_column(table, name, source)
    columns = [column for column in stream.schema if column.name in table.column_names]
    events = pa.table({column.name: _cast_column(table[column.name], column, source) for column in columns})
    double_columns = [column.name for column in columns if column.kind is Kind.DOUBLE]

    def read_rows(indexes: Sequence[int]) -> Iterator[tuple[RecordingRow, bytes]]:
        for start in range(0, len(indexes), ROWS_PER_BATCH):
            for row in events.take(indexes[start : start + ROWS_PER_BATCH]).to_pylist():
                yield row, orjson.dumps(_replace_non_finite(row, double_columns))

    return read_rows


def _require_column(table: pa.Table, name: str, source: object) -> None:
    if name not in table.column_names:
        column_names = ", ".join(table.column_names)
        raise InvalidRecordingError(
            f"{source} has no column {name!r}. Rename one of {column_names}, or declare the stream so."
        )


def _cast_column(values: pa.ChunkedArray, column: Column, source: object) -> pa.ChunkedArray:
    """The values with the type of their column; times as text or numbers stay unchanged."""
    if column.kind is Kind.TIMESTAMP:
        return pc.strftime(_to_utc_us(values), ISO_8601) if _is_temporal(values) else values
    try:
        return values.cast(ARROW_TYPES[column.type])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRecordingError(
            f"{source}: column {column.name!r} is {values.type} and cannot be read as {column.type}: {error}"
        ) from error


def _column_times_us(values: pa.ChunkedArray) -> list[int | None]:
    if _is_temporal(values):
        times_us: list[int | None] = _to_utc_us(values).cast(pa.int64()).to_pylist()
        return times_us
    return [_parse_time_us(value) for value in values.to_pylist()]


def _is_temporal(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_timestamp(values.type) or pa.types.is_date(values.type))


def _to_utc_us(times: pa.ChunkedArray) -> pa.ChunkedArray:
    # Truncates to microseconds, as everywhere.
    return times.cast(ARROW_TYPES["timestamp"], safe=False)


def _read_lines(file: Path, order_by: str) -> tuple[list[int | None], RecordingRowReader]:
    lines = file.read_bytes().splitlines()
    times = [
        _parse_time_us(_parse_object(line, f"{file}:{number}").get(order_by)) for number, line in enumerate(lines, 1)
    ]

    def read_rows(indexes: Sequence[int]) -> Iterator[tuple[RecordingRow, bytes]]:
        return ((orjson.loads(lines[index]), lines[index]) for index in indexes)

    return times, read_rows


def _parse_object(line: bytes, where: str) -> RecordingRow:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidRecordingError(f"{where}: not JSON: {error}. Write one JSON object a line.") from error
    if not isinstance(row, dict):
        raise InvalidRecordingError(f"{where}: {line[:80].decode()} is not an object. Write one JSON object a line.")
    return row


def _parse_time_us(value: Any) -> int | None:
    """Microseconds of any form in which a producer may write a time; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return parse_timestamp_us(str(value))


def _encode_key(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _replace_non_finite(row: RecordingRow, double_columns: Iterable[str]) -> RecordingRow:
    """The row with NaN and infinities as text: JSON has no numbers for them."""
    for name in double_columns:
        value = row[name]
        if value is not None and not isfinite(value):
            row[name] = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return row
