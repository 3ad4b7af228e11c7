"""On-demand features: expressions on a view's own outputs, on lookup tables, and on request fields.

Operands are resolved to a tree of plain fields: outputs by their names, `request.amount`, `entity.card`, and each
column of a table under a name of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.declare.expressions import Call, Expression, Field, infer_kind
from headrace.declare.features.operands import Operand, OutputLeaf
from headrace.declare.streams.lookup_table import ENTITY_PREFIX, LookupLeaf, LookupTable
from headrace.declare.streams.schema import TYPE_OF_KIND, Column, Kind, Schema
from headrace.errors import DeclarationError


class ViewAttribute(NamedTuple):
    """An aggregate's name in its view, and its windows as written."""

    name: str
    windows: tuple[str, ...]


@dataclass(frozen=True)
class OnDemandFeature:
    """A feature computed from others when the view is read."""

    name: str
    tree: Expression
    kind: Kind


@dataclass(frozen=True)
class TableLookup:
    """A table's column in the row of a key, and its name in expressions."""

    name: str
    table: LookupTable
    column: str
    key: Expression

    @property
    def kind(self) -> Kind:
        return self.table.schema.column(self.column, self.name).kind


class ResolvedExpression(NamedTuple):
    """An operand's tree with every leaf named, and the table columns it reads, inner ones first."""

    tree: Expression
    lookups: tuple[TableLookup, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.tree, *(lookup.key for lookup in self.lookups))


def resolve_expression(operand: Operand, attributes: Mapping[int, ViewAttribute], where: str) -> ResolvedExpression:
    """An operand's tree with every leaf named; the view's attributes are found by their identity."""
    lookups: dict[str, TableLookup] = {}

    def visit(node: Any) -> Expression:
        match node:
            case Call():
                return Call(node.op, tuple(map(visit, node.args)))
            case LookupLeaf():
                lookup = _to_table_lookup(node, visit(node.key))
                return Field(lookups.setdefault(lookup.name, lookup).name)
            case OutputLeaf():
                return Field(_resolve_output_name(node, attributes, where))
        resolved: Expression = node
        return resolved

    return ResolvedExpression(visit(operand.node), tuple(lookups.values()))


def _to_table_lookup(leaf: LookupLeaf, key: Expression) -> TableLookup:
    return TableLookup(f"{leaf.table.identity}[{leaf.column!r}] of {key}", leaf.table, leaf.column, key)


def _resolve_output_name(leaf: OutputLeaf, attributes: Mapping[int, ViewAttribute], where: str) -> str:
    attribute = attributes.get(id(leaf.aggregate))
    if attribute is None:
        raise DeclarationError(f"{where}: uses an aggregate that is no attribute of this view. Assign it to one.")
    if leaf.window not in attribute.windows:
        raise DeclarationError(
            f"{where}: {attribute.name}[{leaf.window!r}] has no such window. There is {', '.join(attribute.windows)}."
        )
    return f"{attribute.name}_{leaf.window}"


def build_on_demand_feature(name: str, resolved: ResolvedExpression, inputs: Schema, where: str) -> OnDemandFeature:
    """An on-demand feature, after the kinds of its inputs have been checked."""
    readable_columns = add_lookup_columns(inputs, resolved.lookups, where)
    return OnDemandFeature(name, resolved.tree, infer_kind(resolved.tree, readable_columns, where))


def add_lookup_columns(columns: Schema, lookups: Sequence[TableLookup], where: str) -> Schema:
    """The outputs and the looked-up columns, after each key has been checked against its table's key."""
    for lookup in lookups:
        _require_entity_column(lookup, columns, where)
        key_kind, found_kind = lookup.table.key_kind, infer_kind(lookup.key, columns, where)
        if found_kind is not key_kind:
            raise DeclarationError(
                f"{where}: {lookup.table.label!r} is keyed by {lookup.table.key!r}, which is {key_kind.value}, and "
                f"{lookup.key} is {found_kind.value}. Look it up by a value of that kind, or declare the key's type "
                f"in schema=."
            )
        columns = Schema((*columns, Column(lookup.name, TYPE_OF_KIND[lookup.kind])))
    return columns


def _require_entity_column(lookup: TableLookup, columns: Schema, where: str) -> None:
    is_entity = isinstance(lookup.key, Field) and lookup.key.name.startswith(ENTITY_PREFIX)
    if is_entity and str(lookup.key) not in columns:
        entity_names = [name.removeprefix(ENTITY_PREFIX) for name in columns.names if name.startswith(ENTITY_PREFIX)]
        raise DeclarationError(
            f"{where}: {lookup.table.label!r} is looked up by {str(lookup.key).removeprefix(ENTITY_PREFIX)!r}, and "
            f"the view is "
            f"kept by {', '.join(entity_names)}. Say what to look it up by with .of(…): a feature and its window, "
            f"a field of "
            "the request, or the name of a column of the entity."
        )


def distinct_lookups(resolved_expressions: Iterable[ResolvedExpression]) -> tuple[TableLookup, ...]:
    """The distinct looked-up columns, those that keys depend on first."""
    return tuple({lookup.name: lookup for resolved in resolved_expressions for lookup in resolved.lookups}.values())
