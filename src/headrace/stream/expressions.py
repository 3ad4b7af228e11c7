"""Expression trees as Spark columns. The session runs with ANSI mode off: overflow wraps, dividing by zero is null."""

import operator
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.declare.expressions import Expression, Field, Literal
from headrace.declare.schema import Kind, Schema

WIDEST = {Kind.INTEGER: "bigint", Kind.DOUBLE: "double"}

_OPERATORS: dict[str, Callable[..., Column]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left.cast("double") / right.cast("double"),
    "%": operator.mod,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.invert,
    "is null": Column.isNull,
    "abs": F.abs,
    "coalesce": F.coalesce,
    "sqrt": F.sqrt,
    "least": lambda *args: args[0] if len(args) == 1 else F.least(*args),
    "greatest": lambda *args: args[0] if len(args) == 1 else F.greatest(*args),
    "if": lambda condition, then, otherwise: F.when(condition, then).otherwise(otherwise),
}


def to_column(tree: Expression, schema: Schema, event: Column) -> Column:
    """The Spark column of a tree over a struct column that holds an event."""
    if isinstance(tree, Field):
        return widest(event, tree.name, schema)
    if isinstance(tree, Literal):
        return F.lit(tree.value).cast("bigint") if type(tree.value) is int else F.lit(tree.value)
    return _OPERATORS[tree.op](*(to_column(arg, schema, event) for arg in tree.args))


def widest(event: Column, name: str, schema: Schema) -> Column:
    """An event's field as 64 bits where it is a number: expressions and aggregates know no narrower ones."""
    column = event.getField(name)
    width = WIDEST.get(schema.column(name, "event").kind)
    return column.cast(width) if width else column
