"""Events as JSON that the gate reads as the same values; values it could not read are rejected."""

from collections.abc import Mapping
from datetime import datetime
from math import isfinite, isnan
from typing import Any

import numpy as np
import orjson

from headrace.declare.streams.schema import Kind, Schema
from headrace.tiles.events.event_parser import InvalidEventError

JSON_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
ROW_JSON_OPTIONS = JSON_OPTIONS | orjson.OPT_SERIALIZE_NUMPY
JSON_TYPES = (str, int, float, dict, list, np.generic, type(None))
EventRow = Mapping[str, Any]


def require_row(schema: Schema, row: object) -> EventRow:
    """Reject a value that is not a row, or a row with an undeclared column."""
    if not isinstance(row, Mapping):
        raise InvalidEventError(f"{row!r:.80} is not a row. Write each as a dict by column")
    for name in row:
        if name not in schema.names:
            raise InvalidEventError(f"there is no column {name!r}. The schema's columns are {', '.join(schema.names)}")
    return row


def row_to_json(schema: Schema, row: EventRow) -> bytes:
    """A row of Python values as JSON that the gate reads as the same values."""
    try:
        return orjson.dumps({name: _to_json_value(schema, name, row[name]) for name in row}, option=ROW_JSON_OPTIONS)
    except TypeError as problem:
        raise InvalidEventError(f"not-json: {problem}") from problem


def _to_json_value(schema: Schema, name: str, value: Any) -> Any:
    """A value that JSON can hold; a non-finite double becomes text, any other non-finite value is rejected."""
    if isinstance(value, datetime):
        return value if type(value) is datetime else value.isoformat()  # pandas has a datetime subclass
    if isinstance(value, float | np.floating) and not isfinite(value):
        if schema.column(name, name).kind is not Kind.DOUBLE:
            raise InvalidEventError(f"wrong-type: column {name} is {value}, which only a double can be")
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not isinstance(value, JSON_TYPES):
        raise InvalidEventError(
            f"wrong-type: column {name} is neither text, a number, a boolean nor a datetime: {value!r:.80}"
        )
    return value
