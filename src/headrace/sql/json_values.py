"""Values of a query's rows as JSON."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

import orjson

from headrace.aggregates.sketches.frequent_items import key_text


def row_to_json(row: Sequence[Any]) -> bytes:
    """A row as JSON text; orjson is limited to 64-bit integers, SQL is not."""
    values = [to_json_value(value) for value in row]
    try:
        return orjson.dumps(values)
    except TypeError:
        return json.dumps(values, separators=(",", ":")).encode()


def to_json_value(value: Any) -> Any:
    """Times are ISO 8601, bytes base64, an interval seconds; non-finite numbers and decimals are text.

    >>> to_json_value([1, float("nan"), Decimal("2.50"), b"x", {3: 4}])
    [1, 'NaN', '2.50', 'eA==', {'3': 4}]
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return str(value) if value.as_tuple().exponent else int(value)
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key_text(key): to_json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json_value(item) for item in value]
    return str(value)
