"""Extracts the columns of served vectors from predictions, for the comparison with a version's training data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Kind
from headrace.monitoring.drift.drift_layout import DriftLayout
from headrace.monitoring.drift.ranking import SCORE_COLUMN

MAX_TIME_US = 1 << 62


class ServedVector(NamedTuple):
    """A served vector: the version, role and segment, the time, and the values."""

    version: str
    role: str
    time_us: int
    score: Any
    features: Mapping[str, Any]


def decode_vector(value: bytes | None) -> ServedVector | None:
    """The vector of a record of MODEL.predictions; None for anything else, from any producer."""
    try:
        decoded = orjson.loads(value or b"")
        time_us = decoded["decided_at_us"] if decoded.get("event_time_us") is None else decoded["event_time_us"]
        fields = decoded["version"], decoded["role"], time_us, decoded["score"], decoded["features"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    types = (str, str, int, object, dict)
    is_vector = all(isinstance(field_value, field_type) for field_value, field_type in zip(fields, types, strict=True))
    return ServedVector(*fields) if is_vector and time_us < MAX_TIME_US else None


def extract_columns(layout: DriftLayout, model: Model, vectors: Sequence[ServedVector]) -> dict[str, ValueColumn]:
    """The columns of a layout and its segments; missing and invalid values are null."""
    is_text_by_name = {column.name: not column.is_numeric for column in layout.columns}
    for name, _ in (segment_value for segment in layout.segments for segment_value in segment):
        is_text_by_name.setdefault(
            name, name in model.known and model.known.column(name, model.name).kind is Kind.STRING
        )
    return {name: _to_values(_column_values(name, vectors), is_text) for name, is_text in is_text_by_name.items()}


def _column_values(name: str, vectors: Sequence[ServedVector]) -> list[Any]:
    return [vector.score if name == SCORE_COLUMN else vector.features.get(name) for vector in vectors]


def _to_values(raw_values: Sequence[Any], is_text: bool) -> ValueColumn:
    convert: Callable[[Any], Any] = _text_or_none if is_text else _number_or_none
    values = [convert(value) for value in raw_values]
    valid: NDArray[np.bool_] = np.array([one is not None for one in values], np.bool_)
    blank: Any = "" if is_text else 0.0
    data: NDArray[Any] = np.empty(len(values), object if is_text else np.float64)
    data[:] = [blank if one is None else one for one in values]
    return ValueColumn(data, valid)


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number_or_none(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None
