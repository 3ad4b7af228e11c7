"""On-demand features: computed from an entity's other features and the request, by the numpy expression kernel."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.expressions import field_names
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View
from headrace.declare.streams.lookup_table import ENTITY_PREFIX, LookupTable
from headrace.declare.streams.schema import Kind
from headrace.tiles.events.expression_kernel import evaluate
from headrace.tiles.events.lookup_tables import InMemoryTable, shared_table
from headrace.tiles.finish import EPOCH, to_datetime
from headrace.tiles.tile import Entity

MICROSECOND = EPOCH.resolution


class OnDemandEvaluator:
    """The on-demand features of a view, for rows of its other features; `load` provides the lookup tables."""

    def __init__(self, view: View, load: Callable[[LookupTable], InMemoryTable] = shared_table) -> None:
        read_names = set[str]().union(*map(field_names, view.expressions))
        self._features = view.on_demand_features
        self._stored_outputs = [
            (name, index, view.expression_inputs.column(name, view.name).kind)
            for index, name in enumerate(feature.name for feature in view.features)
            if name in read_names
        ]
        self._request_fields = [
            (column.name, column.name.removeprefix(REQUEST_PREFIX), column.kind) for column in view.request_columns
        ]
        self._entity_keys = [
            (ENTITY_PREFIX + column.name, index, column.kind)
            for index, column in enumerate(view.entity)
            if ENTITY_PREFIX + column.name in read_names
        ]
        tables = {lookup.table: load(lookup.table) for lookup in view.lookups}
        self._lookups = [(one, tables[one.table]) for one in view.lookups]

    def evaluate_rows(
        self, rows: Sequence[Sequence[Any]], requests: Sequence[Mapping[str, Any]], entities: Sequence[Entity]
    ) -> list[list[Any]]:
        """The computed values of each row, with the values of its request by name."""
        if not self._features:
            return [[] for _ in rows]
        columns = {
            name: to_value_column([_to_column_scalar(row[index], kind) for row in rows], kind)
            for name, index, kind in self._stored_outputs
        }
        for name, field_name, kind in self._request_fields:
            columns[name] = to_value_column([request.get(field_name) for request in requests], kind)
        for name, index, kind in self._entity_keys:
            columns[name] = to_value_column([entity[index] for entity in entities], kind)
        feature_columns = self.evaluate_columns(columns, len(rows))
        value_lists = [_to_python_values(feature_columns[feature.name], feature.kind) for feature in self._features]
        return [list(row) for row in zip(*value_lists, strict=True)]

    def evaluate_columns(self, columns: dict[str, ValueColumn], count: int) -> dict[str, ValueColumn]:
        """The computed columns, from the columns they read."""
        self._look_up_tables(columns, count)
        return {feature.name: evaluate(feature.tree, columns, count) for feature in self._features}

    def _look_up_tables(self, columns: dict[str, ValueColumn], count: int) -> None:
        """Look up the columns of tables, each as of one time."""
        snapshots = {table: table.snapshot() for _, table in self._lookups}
        for lookup, table in self._lookups:
            columns[lookup.name] = snapshots[table].look_up(lookup.column, evaluate(lookup.key, columns, count))


def _to_column_scalar(value: Any, kind: Kind) -> Any:
    """A value as a column holds it: times in µs, sums of integers as doubles, since they may exceed 64 bits."""
    if isinstance(value, datetime):
        return (value - EPOCH) // MICROSECOND
    return float(value) if kind is Kind.DOUBLE and value is not None else value


def _to_python_values(values: ValueColumn, kind: Kind) -> list[Any]:
    """A column as users get it: null is None, and times are datetimes."""
    pairs = zip(values.data.tolist(), values.valid.tolist(), strict=True)
    convert = to_datetime if kind is Kind.TIMESTAMP else _identity
    return [convert(value) if is_valid else None for value, is_valid in pairs]


def _identity(value: Any) -> Any:
    return value
