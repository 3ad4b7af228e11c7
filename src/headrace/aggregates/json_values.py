"""Values as JSON: NaN and the infinities, which JSON cannot represent, become text."""

import math
from typing import Any

from headrace.declare.streams.schema import Kind


def to_json_value(value: Any) -> Any:
    """A value as written in JSON.

    >>> to_json_value(1.5), to_json_value(float("-inf")), to_json_value("x"), to_json_value(None)
    (1.5, '-inf', 'x', None)
    """
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json_value(json_value: Any, kind: Kind) -> Any:
    """The value of a kind from its JSON."""
    return float(json_value) if kind is Kind.DOUBLE and json_value is not None else json_value


def to_changelog_value(value: Any) -> Any:
    """A value as written in a changelog, where non-finite numbers have Spark's names.

    >>> to_changelog_value(1.5), to_changelog_value(float("-inf")), to_changelog_value("x")
    (1.5, '-Infinity', 'x')
    """
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
