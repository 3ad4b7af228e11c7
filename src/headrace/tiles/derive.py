"""Derived features: computed from the values of an entity's other features, by the one numpy kernel of expressions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.declare.derived import REQUEST
from headrace.declare.expressions import fields
from headrace.declare.schema import Kind
from headrace.declare.views import View
from headrace.tiles.columns import Values, values_of
from headrace.tiles.expressions import evaluate
from headrace.tiles.finish import EPOCH

MICROSECOND = EPOCH.resolution


class Deriver:
    """The derived features of a view, for rows of its other features."""

    def __init__(self, view: View) -> None:
        read = set[str]().union(*(fields(one.tree) for one in view.derived))
        self._derived = view.derived
        self._outputs = [
            (name, index, view.outputs.column(name, view.name).kind)
            for index, name in enumerate(feature.name for feature in view.features)
            if name in read
        ]
        self._requested = [(column.name, column.kind) for column in view.requested]

    def rows(self, rows: Sequence[Sequence[Any]], request: Mapping[str, Any]) -> list[list[Any]]:
        """The derived values of each row; `request` holds what came with it, by name, and lacks what did not."""
        if not self._derived:
            return [[] for _ in rows]
        columns = {
            name: values_of([_plain(row[index], kind) for row in rows], kind) for name, index, kind in self._outputs
        }
        for name, kind in self._requested:
            columns[name] = values_of([request.get(name.removeprefix(REQUEST))] * len(rows), kind)
        derived = [_listed(values) for values in self.columns(columns, len(rows)).values()]
        return [list(row) for row in zip(*derived, strict=True)]

    def columns(self, columns: Mapping[str, Values], count: int) -> dict[str, Values]:
        """The derived columns of so many rows, from the columns they read."""
        return {one.name: evaluate(one.tree, columns, count) for one in self._derived}


def _plain(value: Any, kind: Kind) -> Any:
    """A value as columns hold it: moments in µs, sums of integers as doubles, for they may pass 64 bits."""
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    return float(value) if kind is Kind.DOUBLE and value is not None else value


def _listed(values: Values) -> list[Any]:
    return [value if there else None for value, there in zip(values.data.tolist(), values.valid.tolist(), strict=True)]
