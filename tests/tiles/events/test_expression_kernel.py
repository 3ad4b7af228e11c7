"""Random trees over hostile values: numpy equals a row-by-row evaluation."""

import math
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.value_columns import ValueColumn, to_value_column
from headrace.declare.expressions import (
    ARITHMETIC_OPERATORS,
    COMPARISON_OPERATORS,
    Call,
    Expression,
    Field,
    Literal,
    infer_kind,
    parse_condition,
)
from headrace.declare.streams.schema import Kind, parse_schema
from headrace.tiles.events.expression_kernel import evaluate, evaluate_condition
from tests.oracle.rowwise import value_of

SCHEMA = parse_schema(
    "i bigint, j bigint, x double, y double, s string, t string, b boolean, c boolean, u timestamp", "test"
)
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INTEGERS = st.sampled_from([INT64_MIN, INT64_MIN + 1, INT64_MAX, -1, 0, 1, 2, 2**53, 2**53 + 1]) | st.integers(
    INT64_MIN, INT64_MAX
)
DOUBLES = (
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 2.0**53, sys.float_info.max, 5e-324])
    | st.floats()
)
TEXTS = st.sampled_from(["", "a", "A", "é", "\U0001f600", "\uffff", "a\x00"]) | st.text(max_size=3)
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INTEGER: INTEGERS,
    Kind.DOUBLE: DOUBLES,
    Kind.STRING: TEXTS,
    Kind.BOOLEAN: st.booleans(),
    Kind.TIMESTAMP: st.integers(-(10**15), 10**16),
}
ROWS = st.lists(
    st.fixed_dictionaries({column.name: st.none() | VALUES[column.kind] for column in SCHEMA}), min_size=1, max_size=12
)


def leaves(kind: Kind) -> st.SearchStrategy[Expression]:
    fields = [Field(column.name) for column in SCHEMA if column.kind is kind]
    if kind is Kind.TIMESTAMP:
        return st.sampled_from(fields)
    return st.sampled_from(fields) | VALUES[kind].map(Literal)


def calls(*parts: Any) -> st.SearchStrategy[Expression]:
    return st.tuples(*parts).map(lambda found: Call(found[0], tuple(found[1:])))


@cache
def trees(kind: Kind, depth: int) -> st.SearchStrategy[Expression]:
    if depth == 0:
        return leaves(kind)
    coalesced = calls(st.just("coalesce"), trees(kind, depth - 1), trees(kind, depth - 1), trees(kind, depth - 1))
    composed = {Kind.INTEGER: integer_calls, Kind.DOUBLE: double_calls, Kind.BOOLEAN: boolean_calls}.get(kind)
    return leaves(kind) | coalesced if composed is None else leaves(kind) | coalesced | composed(depth - 1)


def integer_calls(depth: int) -> st.SearchStrategy[Expression]:
    part = trees(Kind.INTEGER, depth)
    two = calls(st.sampled_from(["+", "-", "*", "%", "least", "greatest"]), part, part)
    return two | calls(st.just("abs"), part) | calls(st.just("if"), trees(Kind.BOOLEAN, depth), part, part)


def double_calls(depth: int) -> st.SearchStrategy[Expression]:
    double, number = trees(Kind.DOUBLE, depth), trees(Kind.DOUBLE, depth) | trees(Kind.INTEGER, depth)
    mixed = calls(st.sampled_from(sorted(ARITHMETIC_OPERATORS)), double, number)
    divided = calls(st.just("/"), number, number)
    chosen = calls(st.just("if"), trees(Kind.BOOLEAN, depth), number, double)
    extreme = calls(st.sampled_from(["least", "greatest"]), number, double, number)
    one = calls(st.just("abs"), double) | calls(st.just("sqrt"), number)
    return mixed | divided | chosen | extreme | one | calls(st.just("coalesce"), number, double)


def boolean_calls(depth: int) -> st.SearchStrategy[Expression]:
    part = trees(Kind.BOOLEAN, depth)
    number = trees(Kind.DOUBLE, depth) | trees(Kind.INTEGER, depth)
    alike = [trees(kind, depth) for kind in (Kind.STRING, Kind.BOOLEAN, Kind.TIMESTAMP)]
    compared = [calls(st.sampled_from(sorted(COMPARISON_OPERATORS)), each, each) for each in [number, *alike]]
    nulls = calls(st.just("is null"), st.one_of(number, trees(Kind.STRING, depth), part))
    return st.one_of(*compared, calls(st.sampled_from(["and", "or"]), part, part), calls(st.just("not"), part), nulls)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, ValueColumn]:
    return {column.name: to_value_column([row[column.name] for row in rows], column.kind) for column in SCHEMA}


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return isinstance(found, float) and (found == expected or (math.isnan(found) and math.isnan(expected)))
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", [Kind.BOOLEAN, Kind.INTEGER, Kind.DOUBLE, Kind.STRING])
def test_a_tree_in_numpy_gives_what_it_gives_row_by_row(kind: Kind) -> None:
    @settings(max_examples=120, deadline=None)
    @given(tree=trees(kind, 3), rows=ROWS)
    def check(tree: Expression, rows: list[dict[str, Any]]) -> None:
        assert infer_kind(tree, SCHEMA, "test") is kind
        found = evaluate(tree, columns_of(rows), len(rows))
        for data, valid, row in zip(found.data.tolist(), found.valid.tolist(), rows, strict=True):
            expected = typed(value_of(tree, row, SCHEMA), kind)
            assert same(data if valid else None, expected), (str(tree), row)

    check()


def typed(value: Any, kind: Kind) -> Any:
    """A coalesce of an integer and a double is a double."""
    return float(value) if kind is Kind.DOUBLE and value is not None else value


@pytest.mark.parametrize(
    ("condition", "row", "expected"),
    [
        ("i + 1 < 0", {"i": INT64_MAX}, True),
        ("abs(i) < 0", {"i": INT64_MIN}, True),
        ("i % j = -1", {"i": -7, "j": 3}, True),
        ("i % j = 0", {"i": INT64_MIN, "j": -1}, True),
        ("i / j = 0.5", {"i": 1, "j": 2}, True),
        ("i / j = 1", {"i": 1, "j": 0}, None),
        ("x % y = 0", {"x": 1.0, "y": 0.0}, None),
        ("x = y", {"x": math.nan, "y": math.nan}, True),
        ("x > y", {"x": math.nan, "y": math.inf}, True),
        ("x = y", {"x": 0.0, "y": -0.0}, True),
        ("i = x", {"i": 2**53 + 1, "x": 2.0**53}, True),
        ("i = j", {"i": 2**53 + 1, "j": 2**53}, False),
        ("s < t", {"s": "\uffff", "t": "\U0001f600"}, True),
        ("s = 'a'", {"s": "a\x00"}, False),
        ("b and c", {"b": None, "c": False}, False),
        ("b and c", {"b": None, "c": True}, None),
        ("b or c", {"b": None, "c": True}, True),
        ("i in (1, 2) or s is null", {"i": 3, "s": None}, True),
        ("i not between 1 and 3", {"i": 2}, False),
        ("coalesce(x, i, 0) = 5", {"x": None, "i": 5}, True),
    ],
)
def test_the_rules_of_sql_hold(condition: str, row: dict[str, Any], expected: bool | None) -> None:
    whole = dict.fromkeys(SCHEMA.names) | row
    tree = parse_condition(condition, SCHEMA, "test")
    found = evaluate(tree, columns_of([whole]), 1)
    assert (bool(found.data[0]) if found.valid[0] else None) is expected
    assert value_of(tree, whole, SCHEMA) is expected


def test_a_condition_that_is_null_does_not_hold() -> None:
    columns = columns_of([dict.fromkeys(SCHEMA.names)])
    assert evaluate_condition(parse_condition("i > 0", SCHEMA, "test"), columns, 1).tolist() == [False]
    assert evaluate_condition(None, columns, 1).tolist() == [True]


def test_no_rows_give_no_values() -> None:
    found = evaluate(parse_condition("i > 0 and s = 'a'", SCHEMA, "test"), columns_of([]), 0)
    assert found.data.dtype == np.bool_
    assert len(found) == 0
