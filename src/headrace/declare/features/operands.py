"""Operands of on-demand features, and the operators and functions on them.

burst = payments["10m"] / payments["1h"]
ratio = hr.request("amount", "double") / mean["7d"]

They build the tree of `declare.expressions`; leaves are named when the view is declared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.declare.expressions import Call, Expression, Field, Literal, LiteralValue
from headrace.declare.streams.schema import KIND_OF_TYPE, Column, Kind
from headrace.errors import DeclarationError

REQUEST_PREFIX = "request."


class Leaf:
    """A leaf of a tree that is named when its view is declared."""


@dataclass(frozen=True, eq=False)
class OutputLeaf(Leaf):
    """The value of an attribute over one of its windows."""

    aggregate: object
    window: str


class Operand:
    """A value that operators and functions apply to; their result is an operand again."""

    def __init__(self, node: Leaf | Expression, request_columns: Iterable[Column] = ()) -> None:
        self.node = node
        self.request_columns = frozenset(request_columns)

    def __add__(self, other: object) -> "Operand":
        return build_call("+", self, other)

    def __radd__(self, other: object) -> "Operand":
        return build_call("+", other, self)

    def __sub__(self, other: object) -> "Operand":
        return build_call("-", self, other)

    def __rsub__(self, other: object) -> "Operand":
        return build_call("-", other, self)

    def __mul__(self, other: object) -> "Operand":
        return build_call("*", self, other)

    def __rmul__(self, other: object) -> "Operand":
        return build_call("*", other, self)

    def __truediv__(self, other: object) -> "Operand":
        return build_call("/", self, other)

    def __rtruediv__(self, other: object) -> "Operand":
        return build_call("/", other, self)

    def __neg__(self) -> "Operand":
        return build_call("-", 0, self)

    def __lt__(self, other: object) -> "Operand":
        return build_call("<", self, other)

    def __le__(self, other: object) -> "Operand":
        return build_call("<=", self, other)

    def __gt__(self, other: object) -> "Operand":
        return build_call(">", self, other)

    def __ge__(self, other: object) -> "Operand":
        return build_call(">=", self, other)

    def __eq__(self, other: object) -> "Operand":  # type: ignore[override]  # an expression, not an answer
        return build_call("=", self, other)

    def __ne__(self, other: object) -> "Operand":  # type: ignore[override]
        return build_call("<>", self, other)

    def __and__(self, other: object) -> "Operand":
        return build_call("and", self, other)

    def __or__(self, other: object) -> "Operand":
        return build_call("or", self, other)

    def __invert__(self) -> "Operand":
        return build_call("not", self)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise DeclarationError("An expression on features is not true or false yet. Write & | ~ for and, or, not.")


def build_call(op: str, *args: object) -> Operand:
    """An operator or function applied to operands and plain values."""
    operands = [arg if isinstance(arg, Operand) else Operand(_to_literal(op, arg)) for arg in args]
    request_columns = frozenset[Column]().union(*(operand.request_columns for operand in operands))
    nodes: tuple[Any, ...] = tuple(operand.node for operand in operands)  # outputs among the arguments are named later
    return Operand(Call(op, nodes), request_columns)


def _to_literal(op: str, value: object) -> Literal:
    if not isinstance(value, LiteralValue):
        raise DeclarationError(
            f"{value!r} beside {op!r} cannot be computed with. Write a number, a text, true or false, or a feature "
            'with its window, such as payments["1h"].'
        )
    return Literal(value)


def request(name: str, type: str) -> Operand:
    """A field of the request; null where the request lacks it."""
    if not str(name).isidentifier():
        raise DeclarationError(
            f"hr.request({name!r}, …): not a name. Write the field of the request, such as 'amount'."
        )
    if type not in KIND_OF_TYPE or KIND_OF_TYPE[type] is Kind.TIMESTAMP:
        allowed_types = ", ".join(known for known, kind in KIND_OF_TYPE.items() if kind is not Kind.TIMESTAMP)
        raise DeclarationError(
            f"hr.request({name!r}, {type!r}): not a type of a request. Write one of {allowed_types}."
        )
    return Operand(Field(REQUEST_PREFIX + name), [Column(REQUEST_PREFIX + name, type)])


def where(condition: Operand, then: object, otherwise: object) -> Operand:
    """One value where the condition is true, the other where it is false or null."""
    return build_call("if", condition, then, otherwise)


def coalesce(*values: object) -> Operand:
    """The first value that is not null."""
    return build_call("coalesce", *values)


def abs(value: Operand) -> Operand:
    """The value without its sign."""
    return build_call("abs", value)


def log(value: Operand) -> Operand:
    """The natural logarithm; null of zero and below.

    Conditions have none: Java's and numpy's differ in the last bit, and an event would count here and not there.
    """
    return build_call("ln", value)


def sqrt(value: Operand) -> Operand:
    """The square root; NaN below zero."""
    return build_call("sqrt", value)
