"""Derived features: expressions on a view's own outputs, on tables, and on values known only at request time.

What a view's attributes name becomes a tree of plain fields: outputs as they are called, `request.amount`,
`entity.card`, and each column of a table under a name of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.declare.expressions import Call, Expression, Field, kind_of
from headrace.declare.operands import Operand, Output
from headrace.declare.schema import TYPE_OF_KIND, Column, Kind, Schema
from headrace.declare.table import ENTITY, Keyed, Looked
from headrace.errors import DeclarationError


class Attribute(NamedTuple):
    """An aggregate's name in its view, and its windows as they were written."""

    name: str
    windows: tuple[str, ...]


@dataclass(frozen=True)
class Derived:
    """A feature computed from others when they are read."""

    name: str
    tree: Expression
    kind: Kind


@dataclass(frozen=True)
class Joined:
    """A table's column in the row of a key, and the name by which expressions know it."""

    name: str
    table: Keyed
    column: str
    key: Expression

    @property
    def kind(self) -> Kind:
        return self.table.schema.column(self.column, self.name).kind


class Named(NamedTuple):
    """An operand's tree with every leaf under its name, and the columns of tables it reads, inner ones first."""

    tree: Expression
    joined: tuple[Joined, ...]

    @property
    def trees(self) -> tuple[Expression, ...]:
        return (self.tree, *(one.key for one in self.joined))


def named(operand: Operand, attributes: Mapping[int, Attribute], where: str) -> Named:
    """An operand's tree with its names; the view's attributes are given by their identity."""
    joined: dict[str, Joined] = {}

    def visit(node: Any) -> Expression:
        match node:
            case Call():
                return Call(node.op, tuple(map(visit, node.args)))
            case Looked():
                one = _joined(node, visit(node.key))
                return Field(joined.setdefault(one.name, one).name)
            case Output():
                return Field(_name(node, attributes, where))
        plain: Expression = node
        return plain

    return Named(visit(operand.node), tuple(joined.values()))


def _joined(looked: Looked, key: Expression) -> Joined:
    return Joined(f"{looked.table.place}[{looked.column!r}] of {key}", looked.table, looked.column, key)


def _name(output: Output, attributes: Mapping[int, Attribute], where: str) -> str:
    attribute = attributes.get(id(output.declared))
    if attribute is None:
        raise DeclarationError(f"{where}: uses an aggregate that is no attribute of this view. Give it a name in it.")
    if output.window not in attribute.windows:
        raise DeclarationError(
            f"{where}: {attribute.name}[{output.window!r}] has no such window. There is {', '.join(attribute.windows)}."
        )
    return f"{attribute.name}_{output.window}"


def derived(name: str, found: Named, outputs: Schema, where: str) -> Derived:
    """A derived feature, once its tree fits the kinds of what it reads."""
    known = with_joined(outputs, found.joined, where)
    return Derived(name, found.tree, kind_of(found.tree, known, where))


def with_joined(outputs: Schema, joined: Sequence[Joined], where: str) -> Schema:
    """The outputs and the columns of tables, once each key is of the kind its table is kept by."""
    for one in joined:
        _require_entity(one, outputs, where)
        wanted, found = one.table.key_kind, kind_of(one.key, outputs, where)
        if found is not wanted:
            raise DeclarationError(
                f"{where}: {one.table.label!r} is kept by {one.table.key!r}, which is {wanted.value}, and "
                f"{one.key} is {found.value}. Look it up by a value of that kind, or declare the key's type in schema=."
            )
        outputs = Schema((*outputs, Column(one.name, TYPE_OF_KIND[one.kind])))
    return outputs


def _require_entity(one: Joined, outputs: Schema, where: str) -> None:
    is_entity = isinstance(one.key, Field) and one.key.name.startswith(ENTITY)
    if is_entity and str(one.key) not in outputs:
        by = [name.removeprefix(ENTITY) for name in outputs.names if name.startswith(ENTITY)]
        raise DeclarationError(
            f"{where}: {one.table.label!r} is looked up by {str(one.key).removeprefix(ENTITY)!r}, and the view is "
            f"kept by {', '.join(by)}. Say what to look it up by with .of(…): a feature and its window, a field of "
            "the request, or the name of a column of the entity."
        )


def distinct_joins(found: Iterable[Named]) -> tuple[Joined, ...]:
    """Each column of a table once, those that others are looked up by first."""
    return tuple({one.name: one for named in found for one in named.joined}.values())
