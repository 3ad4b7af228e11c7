"""An expression has the same value on Spark and in numpy, for random trees over hostile values."""

import math
import random
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.aggregates.value_columns import to_value_column
from headrace.declare.expressions import Call, Expression, Field, Literal, infer_kind
from headrace.declare.streams.schema import Kind, parse_schema
from headrace.spark.gate.column_expressions import to_column
from headrace.tiles.events.expression_kernel import evaluate

SCHEMA = parse_schema("i bigint, k bigint, x double, y double, s string, r string, p boolean, q boolean", "test")
INTEGERS = [0, 1, -1, 7, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), None]
DOUBLES = [0.0, -0.0, 1.0, -1.5, 0.1, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, 2.0**53, None]
TEXTS = ["", "a", "A", "b", "é", "日本", "🙂", "\u0000", "aa", None]
TRUTHS = [True, False, None]
VALUES: dict[Kind, list[Any]] = {
    Kind.INTEGER: INTEGERS,
    Kind.DOUBLE: DOUBLES,
    Kind.STRING: TEXTS,
    Kind.BOOLEAN: TRUTHS,
}
TREES, ROWS = 150, 300


def random_tree(dice: random.Random, kind: Kind, depth: int) -> Expression:
    if depth == 0 or dice.random() < 0.15:
        return random_leaf(dice, kind)
    if kind is Kind.BOOLEAN:
        return random_condition(dice, depth - 1)
    if dice.random() < 0.15:
        return Call("coalesce", (random_tree(dice, kind, depth - 1), random_tree(dice, kind, depth - 1)))
    if kind is Kind.STRING:
        return random_leaf(dice, kind)
    if dice.random() < 0.15:
        return Call("abs", (random_tree(dice, kind, depth - 1),))
    kinds = (
        [Kind.INTEGER, Kind.INTEGER]
        if kind is Kind.INTEGER
        else dice.choice([[Kind.DOUBLE, Kind.DOUBLE], [Kind.DOUBLE, Kind.INTEGER], [Kind.INTEGER, Kind.DOUBLE]])
    )
    op = dice.choice("+-*%" if kind is Kind.INTEGER else "+-*/%")
    return Call(op, tuple(random_tree(dice, side, depth - 1) for side in kinds))


def random_leaf(dice: random.Random, kind: Kind) -> Expression:
    names = [column.name for column in SCHEMA if column.kind is kind]
    unwritable = (None, *(value for value in DOUBLES if value is not None and not math.isfinite(value)))
    written = [value for value in VALUES[kind] if not any(value is other for other in unwritable)]
    return Field(dice.choice(names)) if dice.random() < 0.7 else Literal(dice.choice(written))


def random_condition(dice: random.Random, depth: int) -> Expression:
    shape = dice.random()
    if shape < 0.25:
        return Call(dice.choice(["and", "or"]), tuple(random_tree(dice, Kind.BOOLEAN, depth) for _ in range(2)))
    if shape < 0.35:
        return Call("not", (random_tree(dice, Kind.BOOLEAN, depth),))
    if shape < 0.45:
        return Call("is null", (random_tree(dice, dice.choice(list(VALUES)), depth),))
    left = dice.choice(list(VALUES))
    right = dice.choice([Kind.INTEGER, Kind.DOUBLE]) if left in (Kind.INTEGER, Kind.DOUBLE) else left
    op = dice.choice(["=", "<>", "<", "<=", ">", ">="])
    return Call(op, (random_tree(dice, left, depth), random_tree(dice, right, depth)))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return left == right and (left is None) == (right is None)


def test_random_trees_over_hostile_values_give_the_same_on_spark_and_in_numpy(spark: SparkSession) -> None:
    dice = random.Random(20261115)
    rows = [tuple(dice.choice(VALUES[column.kind]) for column in SCHEMA) for _ in range(ROWS)]
    trees = [random_tree(dice, dice.choice([Kind.BOOLEAN, Kind.INTEGER, Kind.DOUBLE]), 4) for _ in range(TREES)]
    ddl = ", ".join(f"{column.name} {column.type}" for column in SCHEMA)
    frame = spark.createDataFrame([(number, *row) for number, row in enumerate(rows)], f"number bigint, {ddl}")
    event = F.struct(*SCHEMA.names)
    compared = frame.select("number", *(to_column(tree, SCHEMA, event).alias(f"t{n}") for n, tree in enumerate(trees)))
    on_spark = sorted(compared.collect())
    columns = {
        column.name: to_value_column([row[place] for row in rows], column.kind) for place, column in enumerate(SCHEMA)
    }
    different = []
    for number, tree in enumerate(trees):
        found = evaluate(tree, columns, ROWS)
        for row, spark_row in enumerate(on_spark):
            value = found.data[row].item() if hasattr(found.data[row], "item") else found.data[row]
            in_numpy = value if found.valid[row] else None
            if not same(spark_row[f"t{number}"], in_numpy):
                different.append((str(tree), rows[row], spark_row[f"t{number}"], in_numpy))
    assert different == []
    assert {infer_kind(tree, SCHEMA, "test") for tree in trees} == {Kind.BOOLEAN, Kind.INTEGER, Kind.DOUBLE}
