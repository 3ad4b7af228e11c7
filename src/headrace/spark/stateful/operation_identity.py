"""The identity of an operation: the parts of its declaration that its state depends on, saved with its checkpoint.

    columns at the start     id  amount  at                 rows in a join's state: [7, 9.5, 12:00]
    a column is added        id  country amount  at
    columns in state order   id  amount  at  country        older rows are shorter: country is null in them

An added column, or a removed one that has no reader, leaves the state compatible.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import singledispatch
from hashlib import sha256
from typing import Any, TypeVar

from headrace.declare.features.retractable_views import RetractableView
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.operations.join import AsofJoin, Join
from headrace.declare.operations.join_inputs import Side
from headrace.declare.operations.pattern_sequence import Sequence
from headrace.declare.source_location import SourceLocation
from headrace.declare.streams.schema import Schema
from headrace.declare.streams.stream import Stream
from headrace.spark.tiles.query_versions import view_shape

OperationIdentity = dict[str, Any]
JoinDefinition = TypeVar("JoinDefinition", Join, AsofJoin)
Item = TypeVar("Item")


def operation_identity(operation: StreamOperation) -> OperationIdentity:
    """The parts of an operation that its state depends on, as plain values: not its output topics nor its idle time."""
    spec = operation.spec
    return {
        "by": [list(columns) for columns in operation.by],
        "what": to_plain(view_shape(spec.view) if isinstance(spec, RetractableView) else spec),
        "inputs": [to_plain(stream) for stream in operation.inputs],
    }


def to_plain(value: Any) -> Any:
    """A declared value as JSON, the same in every process."""
    if isinstance(value, Stream):
        columns = {column.name: column.type for column in value.schema}
        stream_fields = {"name": value.name, "id": value.id, "time": value.time, "arrival": value.arrival}
        return {**stream_fields, "columns": columns, "late": to_plain(value.late)}
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        field_values = {field.name: getattr(value, field.name) for field in fields(value)}
        plain_fields = {
            name: to_plain(item) for name, item in field_values.items() if not isinstance(item, SourceLocation)
        }
        return {"": type(value).__name__, **plain_fields}
    if isinstance(value, Mapping):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(to_plain, value), key=str)
    if isinstance(value, Callable):  # type: ignore[arg-type]  # mypy: an abstract class
        return _function_fingerprint(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _function_fingerprint(function: Any) -> str:
    """A function by its behaviour: its name, and its code with constants."""
    code = getattr(function, "__code__", None)
    if code is None:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    code_text = repr(
        (code.co_code, [constant for constant in code.co_consts if not hasattr(constant, "co_code")], code.co_names)
    )
    return f"{function.__qualname__} {sha256(code_text.encode()).hexdigest()[:12]}"


def keep_column_order(operation: StreamOperation, saved: OperationIdentity) -> StreamOperation:
    """The operation with its columns in the order of its state, new ones at the end."""
    saved_spec = saved["what"]
    is_same_kind = isinstance(saved_spec, dict) and saved_spec.get("") == type(operation.spec).__name__
    return replace(operation, spec=_reorder_columns(operation.spec, saved_spec)) if is_same_kind else operation


@singledispatch
def _reorder_columns(spec: Any, _saved: OperationIdentity) -> Any:
    """A spec that stores columns by name needs no order."""
    return spec


@_reorder_columns.register
def _reorder_pattern(pattern: Sequence, saved: OperationIdentity) -> Sequence:
    names = [column["name"] for column in saved["schema"]["columns"]]
    return replace(pattern, schema=Schema(_sort_by_names(pattern.schema.columns, names, lambda column: column.name)))


@_reorder_columns.register
def _reorder_join(join: Join, saved: OperationIdentity) -> Join:
    return _reorder_sides(join, saved)


@_reorder_columns.register
def _reorder_asof_join(join: AsofJoin, saved: OperationIdentity) -> AsofJoin:
    return _reorder_sides(join, saved)


def _reorder_sides(join: JoinDefinition, saved: OperationIdentity) -> JoinDefinition:
    return replace(join, left=_reorder_side(join.left, saved["left"]), right=_reorder_side(join.right, saved["right"]))


def _reorder_side(side: Side, saved: OperationIdentity) -> Side:
    names = [name for name, _ in saved["columns"]]
    return replace(side, columns=_sort_by_names(side.columns, names, lambda column: column[0]))


def _sort_by_names(items: Iterable[Item], names: list[str], name_of: Callable[[Item], str]) -> tuple[Item, ...]:
    """Items in the order of names, those without one after them."""
    order = {name: number for number, name in enumerate(names)}
    return tuple(sorted(items, key=lambda item: order.get(name_of(item), len(names))))
