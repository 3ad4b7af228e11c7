"""The contract of every aggregate function; registering one adds it to these tests."""

import math
import pkgutil
import random
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace import aggregates
from headrace.aggregates.aggregate_function import AggregateFunction, aggregate_functions
from headrace.declare.features.aggregate_rules import Shape
from headrace.declare.features.view import Feature
from headrace.declare.streams.schema import Kind
from headrace.online_store.tile_packing import pack_tile, unpack_tile
from headrace.spark.tiles.tile_query import TileFoldConfig, TilePlan, fold_events, to_tile_inputs
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import FeatureTile, FeatureTileKey, decode_key, decode_tile, encode_tile
from tests.oracle.everything import declared

HOUR_US, START = 3_600_000_000, datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = "id string, card string, amount double, units bigint, label string, seen timestamp, flag boolean, at timestamp"
FUNCTIONS = aggregate_functions()
CASES = [
    pytest.param(function, kind, id=f"{function.name}-{kind.value}")
    for function in FUNCTIONS
    for kind in sorted(function.accepted_kinds, key=lambda one: one.value) or [Kind.DOUBLE]
]
PYTHON_TYPES = {
    Kind.DOUBLE: float,
    Kind.INTEGER: int,
    Kind.STRING: str,
    Kind.BOOLEAN: bool,
    Kind.TIMESTAMP: datetime,
}

payments = hr.Stream("payments", schema=SCHEMA, id="id", key="card", time="at")


def name_of(function: AggregateFunction, kind: Kind) -> str:
    return f"{function.name}_{kind.value}"


def over(function: AggregateFunction, kind: Kind) -> Any:
    """The function over a column, with the window every test here has."""
    declaration = declared(function, kind)
    settings = {name: getattr(declaration, name) for name in ("error", "share", "halflife", "k")}
    return type(declaration)(declaration.function, declaration.column, None, "1h", "1m", **settings)


def every_case() -> dict[str, Any]:
    return {name_of(*case.values): over(*case.values) for case in CASES}  # type: ignore[arg-type]


VIEW = hr.features(payments, by="card")(type("Contract", (), every_case()))
(LAYOUT,) = hop_layouts(VIEW)
FEATURES = {feature.name.removesuffix("_1h"): feature for feature in VIEW.features}


def feature_of(function: AggregateFunction, kind: Kind) -> Feature:
    return FEATURES[name_of(function, kind)]


def events(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Events of one card within an hour, in the order of their times; some values are null, some are far away."""
    dice = random.Random(seed)
    return [
        {
            "id": f"p{number:03}",
            "card": "c1",
            "amount": dice.choice([None, dice.gauss(50, 20), dice.expovariate(0.01)]),
            "units": dice.choice([None, dice.randrange(-5, 6), 2**40]),
            "label": dice.choice([None, "", "a", "é 日本"]),
            "seen": dice.choice([None, dice.randrange(HOUR_US)]),
            "flag": dice.choice([None, True, False]),
            "at": at_us(number * 3000 // count),
        }
        for number in range(count)
    ]


def at_us(second: int) -> int:
    return (START - EPOCH) // timedelta(microseconds=1) + second * 1_000_000


def tiles(given: list[dict[str, Any]]) -> list[tuple[FeatureTileKey, FeatureTile]]:
    return list(fold_into_tiles(VIEW, to_event_columns(VIEW, payments, given, [event["at"] for event in given])))


def read(*parts: list[tuple[FeatureTileKey, FeatureTile]]) -> dict[str, Any]:
    """The result of a reader over tiles, in several parts as for a view of several streams."""
    rows = [TileRows(LAYOUT) for _ in parts]
    for one, part in zip(rows, parts, strict=True):
        for _, tile in part:
            one.apply(tile)
    values = FeatureReader(VIEW).read_values(rows, at_us(3599))
    return dict(zip(FEATURES, values, strict=True))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and bool(left == right)


@pytest.mark.parametrize(("function", "kind"), CASES)
def test_the_usage_in_its_docs_row_declares_it(function: AggregateFunction, kind: Kind) -> None:
    assert declared(function, kind).function == function.name
    assert function.usage.startswith("hr.")
    assert function.takes
    assert function.gives
    assert function.of_nothing


@pytest.mark.parametrize(("function", "kind"), CASES)
def test_its_values_have_the_type_it_states(function: AggregateFunction, kind: Kind) -> None:
    result = feature_of(function, kind).aggregate.result_type
    value, nothing = read(tiles(events(200)))[name_of(function, kind)], function.default_value()
    assert (nothing is None) == result.is_nullable
    ones = {Shape.VALUE: lambda: [value], Shape.LIST: lambda: value, Shape.MAP: lambda: list(value)}[result.shape]()
    assert {type(one) for one in ones} == {PYTHON_TYPES[result.kind]}


@pytest.mark.parametrize("count", [1, 5, 400])
def test_tiles_come_back_from_the_changelog_and_from_a_store_as_they_were(count: int) -> None:
    for key, tile in tiles(events(count)):
        assert decode_tile(LAYOUT, key.start_us, encode_tile(LAYOUT, tile)) == tile
        assert unpack_tile(LAYOUT, pack_tile(LAYOUT, tile)) == tile


@pytest.mark.parametrize("count", [2, 30, 400])
@pytest.mark.parametrize(("function", "kind"), CASES)
def test_events_of_two_streams_merge_to_what_they_are_in_one(
    function: AggregateFunction, kind: Kind, count: int
) -> None:
    given, name = events(count), name_of(function, kind)
    assert same(read(tiles(given[::2]), tiles(given[1::2]))[name], read(tiles(given))[name])


@pytest.mark.parametrize(("function", "kind"), CASES)
def test_a_windowed_stream_tells_what_tiles_tell_or_why_it_cannot(function: AggregateFunction, kind: Kind) -> None:
    name = name_of(function, kind)
    given = [event for event in events(100) if at_us(0) <= event["at"] < at_us(3600)]
    measure = {"measure": declared(function, kind)}
    if function.why_not_windowed:
        with pytest.raises(hr.DeclarationError, match="cannot be a column"):
            hr.windowed("hourly", payments, by="card", over=hr.Tumbling("1h"), **measure)
        return
    aggregate = feature_of(function, kind).aggregate
    halves = [function.create_accumulator(aggregate) for _ in range(2)]
    for number, event in enumerate(given):
        value = 1 if aggregate.column is None else event[aggregate.column]
        if value is not None:
            halves[number % 2].add(value, event["at"], event["id"])
    kept = function.create_accumulator(aggregate)
    kept.restore_state(halves[0].encode_state())
    kept.merge(halves[1])
    expected = read(tiles(given))[name]
    told = kept.result()
    assert same(EPOCH + timedelta(microseconds=told) if isinstance(expected, datetime) else told, expected)


def test_spark_folds_what_numpy_folds(spark: SparkSession) -> None:
    given = events(300)
    rows = [tuple(_to_spark(event, name) for name in payments.schema.names) for event in given]
    event = F.struct(*payments.schema.names).alias("event")
    frame = spark.createDataFrame(rows, SCHEMA).select(event, F.lit(7).cast("bigint").alias("arrival_us"))
    config = TileFoldConfig(TilePlan(payments, (VIEW,)), {VIEW.name: 1})
    found = [
        (key, decode_tile(LAYOUT, key.start_us, row["value"].encode()))
        for row in fold_events(to_tile_inputs(frame, payments), config).collect()
        for key in [decode_key(row["key"].encode())]
    ]
    by_spark, by_numpy = read(found), read(tiles(given))
    assert [name for name in FEATURES if not same(by_spark[name], by_numpy[name])] == []


def _to_spark(event: dict[str, Any], name: str) -> Any:
    value = event[name]
    is_time = payments.schema.column(name, "").kind is Kind.TIMESTAMP
    return EPOCH + timedelta(microseconds=value) if is_time and value is not None else value


def test_every_file_of_a_function_is_exported() -> None:
    """Without an import of its file an aggregate would not be registered."""
    folders = ("counts", "statistics", "selection")
    modules = {
        module.name
        for folder in folders
        for module in pkgutil.iter_modules([f"{aggregates.__path__[0]}/{folder}"])
        if module.name not in {"extremes", "occurrences"}  # what two functions share
    }
    assert modules == {function.name for function in FUNCTIONS}
    called = {function.call_name.removeprefix("hr.") for function in FUNCTIONS}
    assert called <= set(hr.__all__)
    assert set(chain.from_iterable(function.accepted_kinds for function in FUNCTIONS)) == set(Kind)
