"""What a server and the process that answers its queries say to each other: a length, then so many bytes of JSON."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from headrace.sql.columns import Columns

LENGTH = struct.Struct("<Q")
READY, ANSWERED, REFUSED, FAILED = b"y", b"a", b"r", b"f"  # how what the process says begins

PATIENCE = 6
PLAIN = {type(None), bool, int, float, str}

Rows = Sequence[Sequence[Any]]


class Asked(NamedTuple):
    """A query, how many rows and bytes of its answer are wanted at most, and for how long it may compute."""

    sql: str
    most_rows: int
    most_bytes: int
    seconds: float


def longest_wait(seconds: float) -> float:
    """How long to wait for a query that may compute for so long: others may have the cores, to whom it gives way."""
    return PATIENCE * seconds


class There(NamedTuple):
    """What a new process is told: where the lake is, and the columns of the live tables."""

    lake: Path | None
    live: Mapping[str, Columns]


class Came(NamedTuple):
    """Some rows of a live table for the query that follows, or a sentence that says why there are none."""

    view: str
    rows: Rows | str


def packed(message: Asked | There | Came) -> bytes:
    """A message of the server."""
    match message:
        case There(lake, live):
            said: Sequence[Any] = [None if lake is None else str(lake), live]
        case Came(view, rows) if not isinstance(rows, str):
            said = [view, _each(_told, rows)]
        case _:
            said = message
    return json.dumps([type(message).__name__, *said]).encode()


def unpacked(content: bytes) -> Asked | There | Came:
    """A message of the server."""
    kind, *said = json.loads(content)
    match kind, said:
        case There.__name__, [lake, live]:
            return There(None if lake is None else Path(lake), live)
        case Came.__name__, [view, list(rows)]:
            return Came(view, _each(_heard, rows))
        case Came.__name__, _:
            return Came(*said)
    return Asked(*said)


def _each(change: Callable[[Any], Any], rows: Rows) -> list[list[Any]]:
    """Rows with those values changed that JSON has no word for: few of many."""
    return [[value if type(value) in PLAIN else change(value) for value in row] for row in rows]


def _told(value: Any) -> Any:
    """A value as JSON can have it: it has no moments, and of maps only those by text."""
    match value:
        case datetime():
            return {"at": value.isoformat()}
        case dict():
            return {"pairs": [[_told(key), _told(one)] for key, one in value.items()]}
        case list() | tuple():
            return [*map(_told, value)]
    return value


def _heard(value: Any) -> Any:
    match value:
        case {"at": text}:
            return datetime.fromisoformat(text)
        case {"pairs": pairs}:
            return {_heard(key): _heard(one) for key, one in pairs}
        case list():
            return [*map(_heard, value)]
    return value


def write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next message; None once there are no more, or only a part of one came."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    content = stream.read(length)
    return content if len(content) == length else None
