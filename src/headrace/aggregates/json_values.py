"""Values as JSON can say them: it has no word for NaN and the infinities, which become text."""

import math
from typing import Any

from headrace.declare.streams.schema import Kind


def to_json_value(value: Any) -> Any:
    """A value as it is written.

    >>> to_json_value(1.5), to_json_value(float("-inf")), to_json_value("x"), to_json_value(None)
    (1.5, '-inf', 'x', None)
    """
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json_value(json_value: Any, kind: Kind) -> Any:
    """The value of a kind that was written."""
    return float(json_value) if kind is Kind.DOUBLE and json_value is not None else json_value


def to_changelog_value(value: Any) -> Any:
    """A value as it is written in a changelog, where the words for them are those of Spark.

    >>> to_changelog_value(1.5), to_changelog_value(float("-inf")), to_changelog_value("x")
    (1.5, '-Infinity', 'x')
    """
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
