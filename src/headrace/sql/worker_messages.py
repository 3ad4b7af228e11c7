"""The protocol between a server and its query process: a length, then that many bytes of JSON."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from headrace.sql.live_columns import SqlColumns

LENGTH_PREFIX = struct.Struct("<Q")
READY, ANSWERED, REFUSED, FAILED = b"y", b"a", b"r", b"f"  # the first byte of the process's messages

WAIT_FACTOR = 6
JSON_TYPES = {type(None), bool, int, float, str}

LiveRows = Sequence[Sequence[Any]]


class SqlRequest(NamedTuple):
    """A query, the maximum number of rows and bytes of its result, and its CPU time limit."""

    sql: str
    max_rows: int
    max_bytes: int
    limit_seconds: float


def max_wait_seconds(limit_seconds: float) -> float:
    """The wall time limit of a query with this CPU time limit: it has a low priority and may wait for cores."""
    return WAIT_FACTOR * limit_seconds


class SqlWorkerSetup(NamedTuple):
    """The setup of a new process: the folder of the lake, and the columns of the live tables."""

    lake_folder: Path | None
    live_columns: Mapping[str, SqlColumns]


class LiveRowsMessage(NamedTuple):
    """Rows of a live table for the query that follows, or an error that says why there are none."""

    view: str
    rows: LiveRows | str


def encode_message(message: SqlRequest | SqlWorkerSetup | LiveRowsMessage) -> bytes:
    """Encode a message of the server."""
    match message:
        case SqlWorkerSetup(lake_folder, live_columns):
            fields: Sequence[Any] = [None if lake_folder is None else str(lake_folder), live_columns]
        case LiveRowsMessage(view, rows) if not isinstance(rows, str):
            fields = [view, _convert_special_values(_encode_value, rows)]
        case _:
            fields = message
    return json.dumps([type(message).__name__, *fields]).encode()


def decode_message(content: bytes) -> SqlRequest | SqlWorkerSetup | LiveRowsMessage:
    """Decode a message of the server."""
    class_name, *fields = json.loads(content)
    match class_name, fields:
        case SqlWorkerSetup.__name__, [lake_folder, live_columns]:
            return SqlWorkerSetup(None if lake_folder is None else Path(lake_folder), live_columns)
        case LiveRowsMessage.__name__, [view, list(rows)]:
            return LiveRowsMessage(view, _convert_special_values(_decode_value, rows))
        case LiveRowsMessage.__name__, _:
            return LiveRowsMessage(*fields)
    return SqlRequest(*fields)


def _convert_special_values(convert: Callable[[Any], Any], rows: LiveRows) -> list[list[Any]]:
    """Rows with those values converted that JSON cannot represent: few of many."""
    return [[value if type(value) in JSON_TYPES else convert(value) for value in row] for row in rows]


def _encode_value(value: Any) -> Any:
    """A value as JSON, which has no timestamps and only maps with text keys."""
    match value:
        case datetime():
            return {"at": value.isoformat()}
        case dict():
            return {"pairs": [[_encode_value(key), _encode_value(item)] for key, item in value.items()]}
        case list() | tuple():
            return [*map(_encode_value, value)]
    return value


def _decode_value(value: Any) -> Any:
    match value:
        case {"at": text}:
            return datetime.fromisoformat(text)
        case {"pairs": pairs}:
            return {_decode_value(key): _decode_value(item) for key, item in pairs}
        case list():
            return [*map(_decode_value, value)]
    return value


def write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(LENGTH_PREFIX.pack(len(content)))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream, or if a message is incomplete."""
    prefix = stream.read(LENGTH_PREFIX.size)
    if len(prefix) < LENGTH_PREFIX.size:
        return None
    (length,) = LENGTH_PREFIX.unpack(prefix)
    content = stream.read(length)
    return content if len(content) == length else None
