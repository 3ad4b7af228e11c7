"""Conditions on one event at a time: random trees over hostile values equal numpy's result."""

from typing import Any

import pytest
from hypothesis import given, settings

from headrace.declare.expressions import Expression
from headrace.declare.streams.schema import Kind
from headrace.operators.row_expressions import compile_expression
from headrace.tiles.events.expression_kernel import evaluate
from tests.tiles.events.test_expression_kernel import ROWS, SCHEMA, columns_of, same, trees


@pytest.mark.parametrize("kind", [Kind.BOOLEAN, Kind.INTEGER, Kind.DOUBLE, Kind.STRING])
def test_a_tree_for_one_event_gives_what_it_gives_in_numpy(kind: Kind) -> None:
    @settings(max_examples=200, deadline=None)
    @given(tree=trees(kind, 3), rows=ROWS)
    def check(tree: Expression, rows: list[dict[str, Any]]) -> None:
        read, column = compile_expression(tree, SCHEMA), evaluate(tree, columns_of(rows), len(rows))
        for data, valid, row in zip(column.data.tolist(), column.valid.tolist(), rows, strict=True):
            assert same(read(row), data if valid else None), (str(tree), row)

    check()
