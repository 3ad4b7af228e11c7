"""Values as JSON and as text: times in ISO 8601, and what is no number by its name, as streams read them."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from headrace.tiles.event_json import JSON


def jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as orjson writes them, so that a stream of the same schema reads the same again."""
    return {name: _finite(value) for name, value in values.items()}


def field_text(value: Any) -> str:
    """A value as plain text.

    >>> field_text("x"), field_text(True), field_text(2.5), field_text(float("nan"))
    ('x', 'true', '2.5', 'NaN')
    """
    shown = _finite(value)
    if isinstance(shown, str):
        return shown
    text = orjson.dumps(shown, option=JSON).decode()
    return text.strip('"') if isinstance(shown, datetime) else text


def _finite(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
