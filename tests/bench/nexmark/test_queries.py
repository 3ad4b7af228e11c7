"""Nexmark's queries return DuckDB's results, over a table and over a stream."""

import inspect
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.nexmark import queries, whole
from bench.nexmark.catalogue import QUERIES, STREAMS
from bench.nexmark.columns import Events, ended
from bench.nexmark.drains import KINDS, Contender, Full, wait_until_quiet
from bench.nexmark.engines import Engine as Running
from bench.nexmark.engines import ours
from bench.nexmark.generate import Shape
from bench.nexmark.log import make_topics
from bench.nexmark.oracle import SQL, answers
from bench.nexmark.spark import Engine, timed
from headrace.embedded_servers.broker import EmbeddedBroker

EVENTS, SHAPE = 20_000, Shape(rate=200, group=16)
STREAMED = ("q3", "q5")  # a join of streams, windows of windows


@pytest.fixture(scope="module")
def events() -> Events:
    return ended(EVENTS, SHAPE)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, events: Events) -> dict[str, DataFrame]:
    """The events as tables; `winning` is what q9 makes of them."""
    frames = {kind: timed(spark.createDataFrame(table)).cache() for kind, table in events}
    return frames | {"winning": QUERIES["q9"].of(frames).cache()}


@pytest.fixture(scope="module")
def full(broker: EmbeddedBroker) -> Full:
    """The events in topics."""
    return Full.of(broker.address, EVENTS, SHAPE)


def test_every_query_has_an_oracle_and_every_oracle_a_query() -> None:
    assert list(QUERIES) == list(SQL)


@pytest.mark.parametrize("name", QUERIES)
def test_over_a_table_the_answer_is_that_of_duckdb(name: str, events: Events, tables: dict[str, DataFrame]) -> None:
    found = QUERIES[name].of(tables)
    times = {column for column, kind in found.dtypes if kind == "timestamp"}
    plain = found.select(*(F.unix_millis(one).alias(one) if one in times else one for one in found.columns))
    columns, wanted = answers(events, name)
    assert found.columns == columns
    assert sorted(map(tuple, plain.collect())) == sorted(wanted)
    assert wanted


def test_no_auction_is_open_for_longer_than_queries_take_for_granted() -> None:
    longest_s = int(queries.LONGEST.partition(" ")[0])
    assert SHAPE.longest_ms < 1_000 * longest_s


@pytest.mark.parametrize("name", STREAMED)
def test_over_a_stream_the_answer_is_that_of_duckdb(name: str, spark: SparkSession, full: Full, tmp_path: Path) -> None:
    assert streamed(name, spark, full, tmp_path) == ""


def test_in_real_time_the_answer_is_that_of_duckdb(spark: SparkSession, full: Full, tmp_path: Path) -> None:
    engine, to = Engine(spark, full.broker, tmp_path), f"{tmp_path.name}.q1"
    make_topics(full.broker, [to], partitions=1)
    engine.begin("q1", {kind: kind for kind in KINDS}, to, "real-time")
    try:
        wait_until_quiet(full.broker, to, 60)
    finally:
        engine.stop()
    assert full.wrong(QUERIES["q1"], to) == ""


@pytest.mark.faults
@pytest.mark.parametrize("name", sorted(set(QUERIES) - set(STREAMED)))
def test_over_a_stream_every_other_answer_is_that_of_duckdb(
    name: str, spark: SparkSession, full: Full, tmp_path: Path
) -> None:
    assert streamed(name, spark, full, tmp_path) == ""


@pytest.mark.faults
def test_in_real_time_every_answer_is_that_of_duckdb(full: Full, tmp_path: Path) -> None:
    able = {name: query for name, query in QUERIES.items() if query.real_time}
    with Running(ours(full.broker, tmp_path)) as engine:
        contender = Contender("tested", engine, in_real_time=True)
        wrong = {name: contender.answer(full, query).wrong for name, query in able.items()}
    assert wrong == dict.fromkeys(able, "")


@pytest.mark.faults
@pytest.mark.parametrize("name", whole.DECLARED)
def test_through_a_whole_app_the_answer_is_that_of_duckdb(name: str, full: Full, tmp_path: Path) -> None:
    found = whole.answer(full, QUERIES[name], tmp_path)
    assert (found.wrong, found.seconds is not None) == ("", True)


def streamed(name: str, spark: SparkSession, full: Full, folder: Path) -> str:
    """What is wrong with the answer of micro-batches."""
    sources = {kind: kind for kind in KINDS} | {"winning": f"{folder.name}.winning"}
    engine, to = Engine(spark, full.broker, folder), f"{folder.name}.{name}"
    make_topics(full.broker, [to, sources["winning"]], partitions=1)
    if "winning" in QUERIES[name].reads:
        engine.drain("q9", sources, sources["winning"])
    engine.drain(name, sources, to)
    return full.wrong(QUERIES[name], to)


def test_a_stream_has_the_columns_of_its_events(events: Events) -> None:
    declared = {kind: [column.split()[0] for column in STREAMS[kind].split(", ")] for kind, _ in events}
    assert declared == {kind: table.column_names for kind, table in events}


def test_a_query_reads_streams_alone() -> None:
    parameters = {name for query in QUERIES.values() for name in inspect.signature(query.function).parameters}
    assert parameters == set(STREAMS)
