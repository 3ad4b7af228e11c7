"""Events read from JSON, strictly: what does not fit its column is refused, never guessed."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from headrace.declare.schema import Column, Kind, Schema
from headrace.errors import HeadraceError
from headrace.tiles.finish import EPOCH

Event = dict[str, Any]  # by column; timestamps in µs, None for null or absent

NOT_JSON = "not-json: the value is not one JSON object in UTF-8"
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
NOT_FINITE = {
    "NaN": np.nan,
    "Infinity": np.inf,
    "+Infinity": np.inf,
    "+INF": np.inf,
    "-Infinity": -np.inf,
    "-INF": -np.inf,
}

_ISO_8601 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|([+-])(\d\d):(\d\d))?", re.ASCII
)
_EPOCH_MILLIS = re.compile(r"-?\d{1,14}", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_FARTHEST_OFFSET = timedelta(hours=18)


class Unreadable(HeadraceError):
    """A value that is no event of its stream; the message is a dead letter's reason."""


class Written(str):
    """A number as it stands in the JSON."""

    __slots__ = ()


def read_event(schema: Schema, value: bytes | None) -> Event:
    """The event a record's value holds."""
    return event_of(schema, as_written(value))


def event_of(schema: Schema, body: Any) -> Event:
    """The event in JSON that was read `as_written`."""
    if not isinstance(body, dict):
        raise Unreadable(NOT_JSON)
    return {column.name: _read(column, body.get(column.name)) for column in schema}


def as_written(value: bytes | None) -> Any:
    """What JSON says, with its numbers as they stand there."""
    try:
        return json.loads((value or b"").decode(), parse_int=Written, parse_float=Written, parse_constant=Written)
    except (ValueError, RecursionError) as error:
        raise Unreadable(NOT_JSON) from error


def _read(column: Column, written: Any) -> Any:
    if written is None:
        return None
    found = _READERS[column.kind](written, column)
    if found is None:
        raise Unreadable(f"wrong-type: column {column.name} is not a {column.type}: {_text(written)[:80]}")
    return found


def _text(written: Any) -> str:
    """The text of a value: a string's own, otherwise its JSON without spaces."""
    text = str(written) if isinstance(written, str) else _json(written)
    return text.encode(errors="replace").decode()  # half a surrogate pair is no text


def _json(written: Any) -> str:
    """JSON without spaces, however deep it is."""
    parts: list[str] = []
    waiting = [written]
    while waiting:
        match one := waiting.pop():
            case Written():  # a number, or a mark between values
                parts.append(one)
            case dict():
                members = [(name, Written(":"), value) for name, value in one.items()]
                waiting += reversed(_between("{", members, "}"))
            case list():
                waiting += reversed(_between("[", [(value,) for value in one], "]"))
            case _:
                parts.append(json.dumps(one, ensure_ascii=False))
    return "".join(parts)


def _between(opening: str, members: list[tuple[Any, ...]], closing: str) -> list[Any]:
    """The members of a list or an object with marks between them."""
    marked = [part for member in members for part in (Written(","), *member)][1:]
    return [Written(opening), *marked, Written(closing)]


def _string(written: Any, _: Column) -> str:
    return _text(written)


def _boolean(written: Any, _: Column) -> bool | None:
    return written if isinstance(written, bool) else None


def _integer(written: Any, column: Column) -> int | None:
    if not isinstance(written, Written) or not _INTEGER.fullmatch(written):
        return None
    half = 1 << (INTEGER_BITS[column.type] - 1)
    return int(written) if -half <= int(written) < half else None


def _double(written: Any, column: Column) -> float | None:
    if isinstance(written, str) and written in NOT_FINITE:
        return NOT_FINITE[written]
    if not isinstance(written, Written):
        return None
    with np.errstate(over="ignore"):
        return float(np.float32(written)) if column.type == "float" else float(written)


def _timestamp(written: Any, _: Column) -> int | None:
    return timestamp_us(written) if isinstance(written, str) else None


def timestamp_us(text: str) -> int | None:
    """Microseconds of ISO 8601 (UTC where it names no offset) or of epoch milliseconds; None for anything else.

    >>> timestamp_us("1970-01-01T01:00:00.0000019+01:00"), timestamp_us("1500"), timestamp_us("noon")
    (1, 1500000, None)
    """
    if _EPOCH_MILLIS.fullmatch(text):
        return int(text) * 1000
    match = _ISO_8601.fullmatch(text)
    return None if match is None else _iso_us(match)


def _iso_us(match: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction_us = int((match[7] or "").ljust(6, "0")[:6])
    offset = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
    if offset > _FARTHEST_OFFSET or int(match[11] or 0) > 59:
        return None
    try:
        local = datetime(year, month, day, hour, minute, second, fraction_us, tzinfo=UTC)
    except ValueError:
        return None
    utc = local - EPOCH + (offset if match[9] == "-" else -offset)
    return utc // timedelta(microseconds=1)


_READERS: dict[Kind, Callable[[Any, Column], Any]] = {
    Kind.STRING: _string,
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.DOUBLE: _double,
    Kind.TIMESTAMP: _timestamp,
}
