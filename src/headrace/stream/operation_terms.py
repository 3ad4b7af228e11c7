"""The terms of an operation: what of its declaration its state depends on, as plain values beside its checkpoint.

    columns begun with       id  amount  at                 rows a join keeps: [7, 9.5, 12:00]
    a column is added        id  country amount  at
    columns as they are kept id  amount  at  country        rows of before are shorter: country is null in them

A column that is added, or one that is removed and nothing reads, leaves the state as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import singledispatch
from hashlib import sha256
from typing import Any, TypeVar

from headrace.declare.derivation import Operation
from headrace.declare.join_inputs import Side
from headrace.declare.joined import AsofJoin, Join
from headrace.declare.recounted import Recount
from headrace.declare.schema import Schema
from headrace.declare.sequence import Sequence
from headrace.declare.source_lines import Written
from headrace.declare.stream import Stream
from headrace.stream.generations import shape

Terms = dict[str, Any]
OfJoin = TypeVar("OfJoin", Join, AsofJoin)
Item = TypeVar("Item")


def terms_of(operation: Operation) -> Terms:
    """What of an operation its state depends on, in plain values: not where it is written, nor how idle it may be."""
    what = operation.what
    return {
        "by": [list(columns) for columns in operation.by],
        "what": to_plain(shape(what.view) if isinstance(what, Recount) else what),
        "inputs": [to_plain(stream) for stream in operation.inputs],
    }


def to_plain(value: Any) -> Any:
    """A declared value as JSON has it, the same in every process."""
    if isinstance(value, Stream):
        columns = {column.name: column.type for column in value.schema}
        named = {"name": value.name, "id": value.id, "time": value.time, "arrival": value.arrival}
        return {**named, "columns": columns, "late": to_plain(value.late)}
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        told = {field.name: getattr(value, field.name) for field in fields(value)}
        plain = {name: to_plain(one) for name, one in told.items() if not isinstance(one, Written)}
        return {"": type(value).__name__, **plain}
    if isinstance(value, Mapping):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(to_plain, value), key=str)
    if isinstance(value, Callable):  # type: ignore[arg-type]  # mypy: an abstract class
        return _code(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _code(function: Any) -> str:
    """A function by what it does: its name, and its code with the constants in it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    told = repr((code.co_code, [one for one in code.co_consts if not hasattr(one, "co_code")], code.co_names))
    return f"{function.__qualname__} {sha256(told.encode()).hexdigest()[:12]}"


def follow_layout(operation: Operation, begun: Terms) -> Operation:
    """An operation that keeps columns in the order in which its state has them, new ones after those."""
    what = begun["what"]
    is_same_kind = isinstance(what, dict) and what.get("") == type(operation.what).__name__
    return replace(operation, what=_laid_out(operation.what, what)) if is_same_kind else operation


@singledispatch
def _laid_out(what: Any, _begun: Terms) -> Any:
    """What keeps columns by their names."""
    return what


@_laid_out.register
def _pattern(what: Sequence, begun: Terms) -> Sequence:
    names = [column["name"] for column in begun["schema"]["columns"]]
    return replace(what, schema=Schema(_ordered(what.schema.columns, names, lambda column: column.name)))


@_laid_out.register
def _join(what: Join, begun: Terms) -> Join:
    return _of_sides(what, begun)


@_laid_out.register
def _asof_join(what: AsofJoin, begun: Terms) -> AsofJoin:
    return _of_sides(what, begun)


def _of_sides(what: OfJoin, begun: Terms) -> OfJoin:
    return replace(what, left=_side(what.left, begun["left"]), right=_side(what.right, begun["right"]))


def _side(side: Side, begun: Terms) -> Side:
    names = [name for name, _ in begun["columns"]]
    return replace(side, columns=_ordered(side.columns, names, lambda column: column[0]))


def _ordered(items: Iterable[Item], names: list[str], name_of: Callable[[Item], str]) -> tuple[Item, ...]:
    """Items in the order of names, those without one after them."""
    order = {name: number for number, name in enumerate(names)}
    return tuple(sorted(items, key=lambda item: order.get(name_of(item), len(names))))
