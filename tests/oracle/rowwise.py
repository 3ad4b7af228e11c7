"""Expressions by their definition: one row at a time, in plain Python, None for null."""

import math
from collections.abc import Mapping
from typing import Any

from headrace.declare.expressions import Expression, Field, Literal, infer_kind
from headrace.declare.streams.schema import Kind, Schema

Value = Any


def value_of(tree: Expression, row: Mapping[str, Value], schema: Schema) -> Value:
    """The value of a tree for one row."""
    if isinstance(tree, Field):
        return row[tree.name]
    if isinstance(tree, Literal):
        return tree.value
    args = [value_of(arg, row, schema) for arg in tree.args]
    if tree.op == "coalesce":
        found = next((arg for arg in args if arg is not None), None)
        return float(found) if found is not None and infer_kind(tree, schema, "row") is Kind.DOUBLE else found
    if tree.op in {"if", "least", "greatest"}:
        found = _chosen(tree.op, args)
        return float(found) if found is not None and infer_kind(tree, schema, "row") is Kind.DOUBLE else found
    if tree.op in {"and", "or", "is null"}:
        return _on_nulls(tree.op, args)
    return None if None in args else _on_values(tree.op, args)


def _chosen(op: str, args: list[Value]) -> Value:
    """One of the values: numbers of two kinds are compared as doubles."""
    if op == "if":
        return args[1] if args[0] is True else args[2]
    there = [arg for arg in args if arg is not None]
    alike = [float(arg) for arg in there] if float in map(type, there) else there
    pick = min if op == "least" else max
    return pick(alike, key=ranked, default=None)


def _on_nulls(op: str, args: list[Value]) -> Value:
    match op:
        case "and":
            return False if False in args else None if None in args else True
        case "or":
            return True if True in args else None if None in args else False
    return args[0] is None


def _on_values(op: str, args: list[Value]) -> Value:
    if op == "not":
        return not args[0]
    if op == "sqrt":
        return math.nan if math.isnan(args[0]) or args[0] < 0 else math.sqrt(args[0])
    if op == "abs":
        return wrapped(abs(args[0])) if type(args[0]) is int else abs(args[0])
    left, right = args
    if float in (type(left), type(right)):
        left, right = float(left), float(right)
    if op in {"=", "<>", "<", "<=", ">", ">="}:
        return _compared(op, ranked(left), ranked(right))
    return _computed(op, left, right)


def ranked(value: Value) -> Value:
    """NaN is greater than every number, and equal to itself."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def _compared(op: str, left: Value, right: Value) -> bool:
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


def _computed(op: str, left: Value, right: Value) -> Value:
    if op in {"/", "%"}:
        return None if right == 0 else _divided(op, left, right)
    found = {"+": left + right, "-": left - right, "*": left * right}[op]
    return wrapped(found) if isinstance(found, int) else found


def _divided(op: str, left: Value, right: Value) -> Value:
    if op == "/":
        return float(left) / float(right)
    if isinstance(left, int):
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    return math.nan if math.isinf(left) or math.isnan(left) else math.fmod(left, right)


def wrapped(number: int) -> int:
    """An integer in the 64 bits it is kept in."""
    return (number + 2**63) % 2**64 - 2**63
