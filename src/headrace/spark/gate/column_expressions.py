"""Expression trees as Spark columns. The session runs with ANSI mode off: overflow wraps, dividing by zero is null."""

import operator
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.declare.expressions import Expression, Field, Literal
from headrace.declare.features.view import View
from headrace.declare.streams.schema import Column as Declared
from headrace.declare.streams.schema import Kind, Schema
from headrace.declare.streams.stream import Stream
from headrace.declare.streams.union import STREAM_COLUMN

WIDE_TYPES = {Kind.INTEGER: "bigint", Kind.DOUBLE: "double"}

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
        return widen_field(event, tree.name, schema)
    if isinstance(tree, Literal):
        return F.lit(tree.value).cast("bigint") if type(tree.value) is int else F.lit(tree.value)
    return _OPERATORS[tree.op](*(to_column(arg, schema, event) for arg in tree.args))


def to_view_event(event: Column, stream: Stream, view: View) -> Column:
    """A stream's event with the view's columns: of several streams, null for missing ones, and the stream's name."""
    if len(view.streams) == 1:
        return event
    return F.struct(*(_view_column(event, stream, column).alias(column.name) for column in view.schema))


def _view_column(event: Column, stream: Stream, column: Declared) -> Column:
    if column.name in stream.schema:
        return event.getField(column.name).cast(column.type)
    return F.lit(stream.name if column.name == STREAM_COLUMN else None).cast(column.type)


def widen_field(event: Column, name: str, schema: Schema) -> Column:
    """An event's field, widened to 64 bits if it is a number: expressions and aggregates have no narrower types."""
    column = event.getField(name)
    wide_type = WIDE_TYPES.get(schema.column(name, "event").kind)
    return column.cast(wide_type) if wide_type else column
