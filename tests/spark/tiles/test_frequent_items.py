"""The most frequent values in Spark's own sketches are read like ours: exact, or within the stated error."""

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.aggregates.counts.top import FrequentItemsPartial
from headrace.aggregates.partial import AggregateSlot
from headrace.aggregates.sketches.frequent_items import (
    MAX_TEXT_LENGTH,
    build_frequent_sketch,
    counts_by_value,
    map_capacity,
    most_frequent,
)
from headrace.aggregates.sketches.sketch_sizes import frequent_items_lg_size
from headrace.declare.streams.schema import Kind
from headrace.spark.tiles.partial_aggregates import partial_columns

LG_MAP = frequent_items_lg_size(0.02)
TYPES = {Kind.STRING: "string", Kind.INTEGER: "bigint", Kind.BOOLEAN: "boolean"}
HOSTILE: dict[Kind, list[Any]] = {
    Kind.STRING: ["", "a", "é", "日本", "\U0001f600", "\uffff", "x" * 500, "\U0001f600" * 500, None],
    Kind.INTEGER: [0, -1, 2**63 - 1, -(2**63), 7, None],
    Kind.BOOLEAN: [True, False, None],
}


def sketches(spark: SparkSession, kind: Kind, parts: list[list[Any]]) -> list[bytes]:
    """What Spark makes of each part."""
    slot = AggregateSlot(FrequentItemsPartial(), "v", kind, None, LG_MAP)
    rows = [(number, value) for number, part in enumerate(parts) for value in part]
    events = spark.createDataFrame(rows, f"part int, v {TYPES[kind]}")
    ((_, _), (_, top)) = partial_columns(slot, F.col("v"), F.lit(True))
    found = [bytes(row["top"]) for row in events.groupBy("part").agg(top.alias("top")).orderBy("part").collect()]
    assert max(map(len, found)) <= slot.partial.max_bytes(slot)
    return found


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_values_are_counted_by_spark_as_by_the_fold(spark: SparkSession, kind: Kind) -> None:
    chance = random.Random(7)
    parts = [[chance.choice(HOSTILE[kind]) for _ in range(chance.randint(1, 60))] for _ in range(12)] + [[None]]
    folded = [build_frequent_sketch((value for value in part if value is not None), LG_MAP) for part in parts]
    found = most_frequent(sketches(spark, kind, parts), 20, kind)
    assert found == most_frequent(folded, 20, kind)
    assert len(found) == len(HOSTILE[kind]) - 1
    assert counts_by_value(sketches(spark, kind, parts), kind) == counts_by_value(folded, kind)


def test_as_many_different_values_as_a_map_holds_are_exact(spark: SparkSession) -> None:
    values = [f"v{number:03}" for number in range(map_capacity(LG_MAP)) for _ in range(1 + number % 3)]
    found = sketches(spark, Kind.STRING, [values])
    assert most_frequent(found, 5, Kind.STRING) == most_frequent(
        [build_frequent_sketch(values, LG_MAP)], 5, Kind.STRING
    )
    assert counts_by_value(found, Kind.STRING) == Counter(values)


def test_more_values_than_a_map_holds_are_within_the_stated_error(spark: SparkSession) -> None:
    chance = random.Random(3)
    parts = [[f"m{int(chance.paretovariate(0.7))}" for _ in range(4000)] for _ in range(5)]
    counts = Counter(value for part in parts for value in part)
    found = most_frequent(sketches(spark, Kind.STRING, parts), 10, Kind.STRING)
    least_given = min(counts[value] for value in found)
    most_missed = max(count for value, count in counts.items() if value not in found)
    assert most_missed - least_given <= 0.02 * counts.total()
    assert all(len(value) <= MAX_TEXT_LENGTH for value in found)


def test_counts_of_more_values_than_a_map_holds_are_short_by_the_stated_error_at_most(spark: SparkSession) -> None:
    chance = random.Random(4)
    parts = [[int(chance.paretovariate(0.7)) % 10_000 for _ in range(4000)] for _ in range(5)]
    counts = Counter(value for part in parts for value in part)
    found = counts_by_value(sketches(spark, Kind.INTEGER, parts), Kind.INTEGER)
    short = [count - found.get(value, 0) for value, count in counts.items()]
    assert min(short) >= 0
    assert 0 < max(short) <= 0.02 * counts.total()
