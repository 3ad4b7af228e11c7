"""Predictions as the log holds them, taken apart into the columns that their version is compared by."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from headrace.declare.model import Model
from headrace.declare.schema import Kind
from headrace.evaluate.drift.layout import Layout
from headrace.evaluate.drift.ranking import SCORE
from headrace.tiles.columns import Values

LAST_US = 1 << 62


class Vector(NamedTuple):
    """What was served once: by which version, to whom in which role, when, and what."""

    version: str
    role: str
    time_us: int
    score: Any
    features: Mapping[str, Any]


def read_vector(value: bytes | None) -> Vector | None:
    """The vector of a record of MODEL.predictions; None where it is none, whoever wrote it."""
    try:
        said = orjson.loads(value or b"")
        time_us = said["decided_at_us"] if said.get("event_time_us") is None else said["event_time_us"]
        found = said["version"], said["role"], time_us, said["score"], said["features"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    kinds = (str, str, int, object, dict)
    is_one = all(isinstance(one, kind) for one, kind in zip(found, kinds, strict=True))
    return Vector(*found) if is_one and time_us < LAST_US else None


def columns_of(layout: Layout, model: Model, vectors: Sequence[Vector]) -> dict[str, Values]:
    """The columns of a layout, and those its segments are made of; what is not told, or no such value, is null."""
    texts = {column.name: not column.is_number for column in layout.columns}
    for name, _ in (one for segment in layout.segments for one in segment):
        texts.setdefault(name, name in model.known and model.known.column(name, model.name).kind is Kind.STRING)
    return {name: _column(_told(name, vectors), is_text) for name, is_text in texts.items()}


def _told(name: str, vectors: Sequence[Vector]) -> list[Any]:
    return [one.score if name == SCORE else one.features.get(name) for one in vectors]


def _column(told: Sequence[Any], is_text: bool) -> Values:
    read: Callable[[Any], Any] = _text if is_text else _number
    values = [read(one) for one in told]
    valid: NDArray[np.bool_] = np.array([one is not None for one in values], np.bool_)
    blank: Any = "" if is_text else 0.0
    data: NDArray[Any] = np.empty(len(values), object if is_text else np.float64)
    data[:] = [blank if one is None else one for one in values]
    return Values(data, valid)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None
