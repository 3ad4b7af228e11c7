"""Derived streams on Spark and a broker: the function's rows, its lane, and rows that raise put aside."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import headrace as hr
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.errors import DeclarationError
from headrace.spark.derived_streams.derived_query import choose_lane
from headrace.spark.execution.lanes import Lane
from tests.spark.derived_stream_runner import deriving, function_of, now_ms, records_of, send_clean, wait_for_rows
from tests.waiting import wait_until

SCHEMA = "id string, card string, country string, amount double, n bigint, at timestamp"


def stream(name: str) -> hr.Stream:
    return hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at", partitions=1)


def payments(count: int, **changes: dict[int, object]) -> list[dict[str, object]]:
    """Events numbered from 0, every third from France; `changes` replaces fields of some, by number."""
    now = now_ms()
    return [
        {
            "id": f"p{number}",
            "card": f"c{number % 5}",
            "country": "FR" if number % 3 == 0 else "DE",
            "amount": number / 4,
            "n": number,
            "at": now + number,
        }
        | {name: of[number] for name, of in changes.items() if number in of}
        for number in range(count)
    ]


one_side, other_side = stream("one_side"), stream("other_side")
doubled = F.udf(lambda n: n * 2, LongType())


def table(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame([("DE", "Germany")], "country string, land string")


def counted(frame: DataFrame, window: Column) -> DataFrame:
    """One row a card and window, with the columns of a payment."""
    grouped = frame.groupBy(window.alias("w"), "card").agg(
        F.min("id").alias("id"),
        F.max("known_at").alias("known_at"),
        F.min("country").alias("country"),
        F.sum("amount").alias("amount"),
        F.count("*").alias("n"),
    )
    return grouped.withColumn("at", F.col("w.start")).drop("w")


def joined(frame: DataFrame) -> DataFrame:
    other = frame.select(F.col("id").alias("other_id"), F.col("at").alias("other_at"))
    return frame.join(other, F.expr("id = other_id and at = other_at")).drop("other_id", "other_at")


LANES: list[tuple[Callable[[DataFrame], DataFrame], Lane, str, bool]] = [
    (lambda p: p.where("country <> 'FR'"), Lane.REAL_TIME, "filters", False),
    (lambda p: p.withColumn("n", F.explode(F.array("n", "n"))), Lane.REAL_TIME, "explode", False),
    (lambda p: p.where("n > 1").union(p.where("n <= 1")), Lane.MICRO_BATCH, "one_side read more than once", False),
    (lambda p: p.join(F.broadcast(table(p)), "country").drop("land"), Lane.REAL_TIME, "broadcast joins", False),
    (lambda p: p.join(table(p), "country").drop("land"), Lane.MICRO_BATCH, "not broadcast", False),
    (lambda p: p.withColumn("n", doubled("n")), Lane.MICRO_BATCH, "a Python UDF", False),
    (lambda p: p.mapInPandas(lambda frames: frames, p.schema), Lane.MICRO_BATCH, "a mapInPandas", False),
    (lambda p: p.repartition(2), Lane.MICRO_BATCH, "a repartition", False),
    (lambda p: p.dropDuplicatesWithinWatermark(["card"]), Lane.MICRO_BATCH, "a dropDuplicates", True),
    (lambda p: counted(p, F.window("at", "1 minute")), Lane.MICRO_BATCH, "an aggregate", True),
    (lambda p: counted(p, F.session_window("at", "1 minute")), Lane.MICRO_BATCH, "a session window", True),
    (joined, Lane.MICRO_BATCH, "a stream-stream join", True),
]


@pytest.mark.shows("derived function", lane=("real-time", "micro-batch"))
@pytest.mark.parametrize(("function", "lane", "words", "keeps_state"), LANES)
def test_a_function_runs_in_the_fastest_lane_that_runs_what_is_in_it(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame], lane: Lane, words: str, keeps_state: bool
) -> None:
    judged = choose_lane(spark.newSession(), function_of(hr.derive(one_side, name="it")(function)))
    assert (judged.lane, judged.keeps_state) == (lane, keeps_state)
    assert words in judged.reason


REFUSED: list[tuple[Callable[[DataFrame], object], str]] = [
    (lambda p: p.drop("amount"), "no column 'amount', only id, card, country, n, at, known_at. Select it as double"),
    (lambda p: p.drop("known_at"), 'compute it: F.max("known_at")'),
    (lambda p: p.withColumn("n", F.col("n").cast("int")), "column 'n' is declared as bigint and the result's is int"),
    (lambda p: p.withColumn("eur", F.lit(1)), "column 'eur' that is not declared"),
    (lambda p: p.orderBy("at"), "Spark cannot run it on a stream: Sorting is not supported"),
    (lambda p: p.where("nobody > 1"), "the function fails: [UNRESOLVED_COLUMN"),
    (lambda p: p.nobody, "the function fails: "),
    (lambda p: None, "the function gives NoneType, not a DataFrame"),
    (lambda p: p.groupBy("card").applyInPandas(lambda one: one, p.schema), "runs on what happens to be in one batch"),
]


@pytest.mark.parametrize(("function", "words"), REFUSED)
def test_a_function_that_cannot_work_is_refused_with_its_line(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame], words: str
) -> None:
    with pytest.raises(DeclarationError, match=r"test_derived_query[.]py:[0-9]+: it: ") as refused:
        choose_lane(spark.newSession(), function_of(hr.derive(one_side, name="it")(function)))
    assert words in str(refused.value)


def test_real_time_is_refused_where_the_function_cannot(spark: SparkSession) -> None:
    udf = hr.derive(one_side, name="it", lane="real-time")(lambda p: p.withColumn("n", doubled("n")))
    with pytest.raises(DeclarationError, match='lane="real-time", and the function has a Python UDF'):
        choose_lane(spark.newSession(), function_of(udf))
    slow = hr.derive(one_side, name="it", lane="micro-batch")(lambda p: p)
    assert choose_lane(spark.newSession(), function_of(slow)).lane is Lane.MICRO_BATCH


def test_a_parent_that_is_not_read_is_refused(spark: SparkSession) -> None:
    both = hr.derive(one_side, other_side, name="it", schema=SCHEMA, id="id", key="card", time="at")(lambda p, q: p)
    with pytest.raises(DeclarationError, match="does not read other_side"):
        choose_lane(spark.newSession(), function_of(both))


def derived(name: str, parent: hr.Stream, function: Callable[[DataFrame], DataFrame]) -> DerivedStream:
    return hr.derive(parent, name=name)(function)


def test_rows_keep_microseconds_and_the_order_of_a_key(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    parent = stream("kept")
    later = derived("kept_later", parent, lambda p: p.withColumn("at", F.expr("at + interval 7 microseconds")))
    events = payments(40)
    with deriving(spark, broker.address, later, tmp_path) as pilot:
        send_clean(broker.address, parent, events)
        rows = wait_for_rows(broker.address, later, 40, pilot)
        assert pilot.lane is Lane.REAL_TIME
    assert [row["id"] for row in rows] == [event["id"] for event in events]
    assert {row["at"][19:] for row in rows} == {f".{event['at'] % 1000:03}007Z" for event in events}
    assert all(
        one.key == json.loads(one.value or b"")["card"].encode() for one in records_of(broker.address, later.name)
    )


def raised_of(broker: EmbeddedBroker, of: DerivedStream) -> list[str]:
    found = [one.header("headrace.raised") for one in records_of(broker.address, of.name)]
    return [one.decode() for one in found if one is not None]


def test_rows_that_raise_in_real_time_are_put_aside_and_the_rest_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    parent = stream("divided_parent")
    divided = derived("divided", parent, lambda p: p.withColumn("n", F.expr("120 div n")))
    with deriving(spark, broker.address, divided, tmp_path) as pilot:
        send_clean(broker.address, parent, payments(30, n={7: 0, 19: 0, 20: 0, 0: 5}))
        rows = wait_for_rows(broker.address, divided, 27, pilot)
        assert pilot.lane is Lane.REAL_TIME
        send_clean(broker.address, parent, payments(31)[30:])
        wait_for_rows(broker.address, divided, 28, pilot)
    assert not {"p7", "p19", "p20"} & {row["id"] for row in rows}
    places = [why.rpartition("(")[2] for why in raised_of(broker, divided)]
    assert places == [f"divided_parent.clean-0@{offset})" for offset in (7, 19, 20)]
    assert all("[DIVIDE_BY_ZERO] Division by zero" in why for why in raised_of(broker, divided))


def test_rows_that_raise_in_a_python_udf_are_put_aside(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    parent = stream("picky_parent")

    def picked(n):  # type: ignore[no-untyped-def]
        if n % 10 == 3:
            raise ValueError(f"nobody wants {n}")
        return n

    picky = derived("picky", parent, lambda p: p.withColumn("n", F.udf(picked, LongType())("n")))
    with deriving(spark, broker.address, picky, tmp_path) as pilot:
        send_clean(broker.address, parent, payments(20))
        rows = wait_for_rows(broker.address, picky, 18, pilot)
        assert pilot.lane is Lane.MICRO_BATCH
    assert {row["n"] for row in rows} == set(range(20)) - {3, 13}
    assert [why.partition(" (")[0] for why in raised_of(broker, picky)] == [
        f"ValueError: nobody wants {n}" for n in (3, 13)
    ]


def test_what_no_row_is_to_blame_for_keeps_the_query_down(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    parent = stream("unreached_parent")

    def asked(n):  # type: ignore[no-untyped-def]
        raise ConnectionRefusedError("the service is down")

    unreached = derived("unreached", parent, lambda p: p.withColumn("n", F.udf(asked, LongType())("n")))
    with deriving(spark, broker.address, unreached, tmp_path) as pilot:
        send_clean(broker.address, parent, payments(5))
        wait_until(lambda: pilot.check_health().restarts > 1, 240, "the query to fail again and again")
        assert pilot.is_alive()
    assert pilot.health.is_down
    assert pilot.health.error == "ConnectionRefusedError: the service is down"
    assert records_of(broker.address, unreached.name) == []


def test_a_function_that_keeps_state_is_given_each_id_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    parent = hr.Stream(
        "counted_parent", schema=SCHEMA, id="id", key="card", time="at", partitions=1, late=hr.Late("1s"), ahead="1s"
    )
    per_minute = derived("counted", parent, lambda p: counted(p, F.window("at", "1 minute")))
    events = payments(30)
    start = events[0]["at"] // 60_000 * 60_000 + 60_000  # type: ignore[operator]
    events = [event | {"at": start + number} for number, event in enumerate(events)]
    closing = payments(31)[30] | {"card": "last", "at": start + 3_600_000}
    with deriving(spark, broker.address, per_minute, tmp_path) as pilot:
        send_clean(broker.address, parent, [*events, *events[:20], closing])
        rows = wait_for_rows(broker.address, per_minute, 5, pilot)
        assert (pilot.lane, pilot.count_dropped_rows()) == (Lane.MICRO_BATCH, 0)
    assert {row["card"]: (row["n"], row["amount"]) for row in rows} == {
        f"c{card}": (6, sum(number / 4 for number in range(card, 30, 5))) for card in range(5)
    }


def test_two_parents_are_one_stream_in_real_time(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    parents = stream("one_of_two"), stream("two_of_two")
    words = {"schema": SCHEMA, "id": "id", "key": "card", "time": "at"}
    both = hr.derive(*parents, name="both", **words)(lambda one, two: one.union(two))  # type: ignore[arg-type]
    with deriving(spark, broker.address, both, tmp_path) as pilot:
        send_clean(broker.address, parents[0], payments(10))
        send_clean(broker.address, parents[1], payments(20)[10:])
        rows = wait_for_rows(broker.address, both, 20, pilot)
        assert pilot.lane is Lane.REAL_TIME
        wait_until(
            lambda: sum(pilot.reached_offsets().values()) == 20,
            60,
            "a checkpoint of both",
            lambda: str(pilot.reached_offsets()),
        )
    assert {row["id"] for row in rows} == {f"p{number}" for number in range(20)}
    assert pilot.reached_offsets() == {"one_of_two.clean-0": 10, "two_of_two.clean-0": 10}
