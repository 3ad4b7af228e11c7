"""Derived features: computed from the values of an entity's other features, by the one numpy kernel of expressions."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.declare.expressions import fields
from headrace.declare.operands import REQUEST
from headrace.declare.schema import Kind
from headrace.declare.table import ENTITY, Keyed
from headrace.declare.views import View
from headrace.tiles.columns import Values, values_of
from headrace.tiles.expressions import evaluate
from headrace.tiles.finish import EPOCH, moment
from headrace.tiles.tables import Copy, shared
from headrace.tiles.tile import Entity

MICROSECOND = EPOCH.resolution


class Deriver:
    """The derived features of a view, for rows of its other features; `load` says whose copies of tables it reads."""

    def __init__(self, view: View, load: Callable[[Keyed], Copy] = shared) -> None:
        read = set[str]().union(*map(fields, view.trees))
        self._derived = view.derived
        self._outputs = [
            (name, index, view.outputs.column(name, view.name).kind)
            for index, name in enumerate(feature.name for feature in view.features)
            if name in read
        ]
        self._requested = [(column.name, column.name.removeprefix(REQUEST), column.kind) for column in view.requested]
        self._keys = [
            (ENTITY + column.name, index, column.kind)
            for index, column in enumerate(view.entity)
            if ENTITY + column.name in read
        ]
        tables = {one.table: load(one.table) for one in view.joined}
        self._joined = [(one, tables[one.table]) for one in view.joined]

    def rows(
        self, rows: Sequence[Sequence[Any]], requests: Sequence[Mapping[str, Any]], entities: Sequence[Entity]
    ) -> list[list[Any]]:
        """The derived values of each row; its request holds what came with it, by name, and lacks what did not."""
        if not self._derived:
            return [[] for _ in rows]
        columns = {
            name: values_of([_plain(row[index], kind) for row in rows], kind) for name, index, kind in self._outputs
        }
        for name, asked, kind in self._requested:
            columns[name] = values_of([request.get(asked) for request in requests], kind)
        for name, index, kind in self._keys:
            columns[name] = values_of([entity[index] for entity in entities], kind)
        derived = self.columns(columns, len(rows))
        listed = [_listed(derived[one.name], one.kind) for one in self._derived]
        return [list(row) for row in zip(*listed, strict=True)]

    def columns(self, columns: dict[str, Values], count: int) -> dict[str, Values]:
        """The derived columns of so many rows, from the columns they read."""
        self._join(columns, count)
        return {one.name: evaluate(one.tree, columns, count) for one in self._derived}

    def _join(self, columns: dict[str, Values], count: int) -> None:
        """Look up what comes from tables, each as it is at one moment."""
        now = {table: table.rows() for _, table in self._joined}
        for one, table in self._joined:
            columns[one.name] = now[table].looked_up(one.column, evaluate(one.key, columns, count))


def _plain(value: Any, kind: Kind) -> Any:
    """A value as columns hold it: moments in µs, sums of integers as doubles, for they may pass 64 bits."""
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    return float(value) if kind is Kind.DOUBLE and value is not None else value


def _listed(values: Values, kind: Kind) -> list[Any]:
    """A column as users get it: null is None, and times are moments."""
    found = zip(values.data.tolist(), values.valid.tolist(), strict=True)
    given = moment if kind is Kind.TIMESTAMP else _as_it_is
    return [given(value) if there else None for value, there in found]


def _as_it_is(value: Any) -> Any:
    return value
