"""Values as JSON can say them: it has no word for NaN and the infinities, which become text."""

import math
from typing import Any

from headrace.declare.schema import Kind


def plain(value: Any) -> Any:
    """A value as it is written.

    >>> plain(1.5), plain(float("-inf")), plain("x"), plain(None)
    (1.5, '-inf', 'x', None)
    """
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_plain(written: Any, kind: Kind) -> Any:
    """The value of a kind that was written."""
    return float(written) if kind is Kind.DOUBLE and written is not None else written
