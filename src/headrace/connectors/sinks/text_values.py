"""Values as JSON and as text, in the form that streams read: times in ISO 8601, non-finite numbers by name."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from headrace.tiles.events.event_json import JSON_OPTIONS


def to_json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values for orjson, so that a stream of the same schema reads equal values."""
    return {name: _non_finite_to_text(value) for name, value in values.items()}


def to_field_text(value: Any) -> str:
    """A value as plain text.

    >>> to_field_text("x"), to_field_text(True), to_field_text(2.5), to_field_text(float("nan"))
    ('x', 'true', '2.5', 'NaN')
    """
    json_value = _non_finite_to_text(value)
    if isinstance(json_value, str):
        return json_value
    text = orjson.dumps(json_value, option=JSON_OPTIONS).decode()
    return text.strip('"') if isinstance(json_value, datetime) else text


def _non_finite_to_text(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
