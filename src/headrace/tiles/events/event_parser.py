"""Parses events from JSON, strictly: a value that does not fit its column is rejected."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from headrace.declare.streams.schema import Column, Kind, Schema
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


class InvalidEventError(HeadraceError):
    """A value that is not a valid event of its stream; the message is a dead letter's reason."""


class JsonLiteral(str):
    """A number as written in the JSON."""

    __slots__ = ()


def parse_event(schema: Schema, value: bytes | None) -> Event:
    """The event of a record's value."""
    return to_event(schema, parse_raw_json(value))


def to_event(schema: Schema, body: Any) -> Event:
    """The event of JSON that `parse_raw_json` returned."""
    if not isinstance(body, dict):
        raise InvalidEventError(NOT_JSON)
    return {column.name: _parse_value(column, body.get(column.name)) for column in schema}


def parse_raw_json(value: bytes | None) -> Any:
    """Parse JSON, with numbers as they are written."""
    try:
        return json.loads(
            (value or b"").decode(), parse_int=JsonLiteral, parse_float=JsonLiteral, parse_constant=JsonLiteral
        )
    except (ValueError, RecursionError) as error:
        raise InvalidEventError(NOT_JSON) from error


def _parse_value(column: Column, value: Any) -> Any:
    if value is None:
        return None
    parsed = _PARSERS[column.kind](value, column)
    if parsed is None:
        raise InvalidEventError(f"wrong-type: column {column.name} is not a {column.type}: {_to_text(value)[:80]}")
    return parsed


def _to_text(value: Any) -> str:
    """The text of a value: a string's own, otherwise its JSON without spaces."""
    text = str(value) if isinstance(value, str) else _to_json(value)
    return text.encode(errors="replace").decode()  # half a surrogate pair cannot be encoded


def _to_json(value: Any) -> str:
    """JSON without spaces, of any depth."""
    parts: list[str] = []
    pending = [value]
    while pending:
        match item := pending.pop():
            case JsonLiteral():  # a number, or a separator
                parts.append(item)
            case dict():
                members = [(name, JsonLiteral(":"), member) for name, member in item.items()]
                pending += reversed(_join_members("{", members, "}"))
            case list():
                pending += reversed(_join_members("[", [(value,) for value in item], "]"))
            case _:
                parts.append(json.dumps(item, ensure_ascii=False))
    return "".join(parts)


def _join_members(opening: str, members: list[tuple[Any, ...]], closing: str) -> list[Any]:
    """The members of a list or an object, with separators."""
    joined = [part for member in members for part in (JsonLiteral(","), *member)][1:]
    return [JsonLiteral(opening), *joined, JsonLiteral(closing)]


def _parse_string(value: Any, _: Column) -> str:
    return _to_text(value)


def _parse_boolean(value: Any, _: Column) -> bool | None:
    return value if isinstance(value, bool) else None


def _parse_integer(value: Any, column: Column) -> int | None:
    if not isinstance(value, JsonLiteral) or not _INTEGER.fullmatch(value):
        return None
    limit = 1 << (INTEGER_BITS[column.type] - 1)
    return int(value) if -limit <= int(value) < limit else None


def _parse_double(value: Any, column: Column) -> float | None:
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if not isinstance(value, JsonLiteral):
        return None
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if column.type == "float" else float(value)


def _parse_timestamp(value: Any, _: Column) -> int | None:
    return parse_timestamp_us(value) if isinstance(value, str) else None


def parse_timestamp_us(text: str) -> int | None:
    """Microseconds from ISO 8601 (UTC by default) or epoch milliseconds; None for anything else.

    >>> parse_timestamp_us("1970-01-01T01:00:00.0000019+01:00"), parse_timestamp_us("1500"), parse_timestamp_us("noon")
    (1, 1500000, None)
    """
    if _EPOCH_MILLIS.fullmatch(text):
        return int(text) * 1000
    match = _ISO_8601.fullmatch(text)
    return None if match is None else _iso_match_to_us(match)


def _iso_match_to_us(match: re.Match[str]) -> int | None:
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


_PARSERS: dict[Kind, Callable[[Any, Column], Any]] = {
    Kind.STRING: _parse_string,
    Kind.BOOLEAN: _parse_boolean,
    Kind.INTEGER: _parse_integer,
    Kind.DOUBLE: _parse_double,
    Kind.TIMESTAMP: _parse_timestamp,
}
