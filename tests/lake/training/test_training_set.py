"""Training sets through Spark equal brute force over the events known at each row's time."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.declare.features.view import View
from headrace.lake.historical_features import BEFORE_FIRST_EVENT, FOUND, NO_KEY, STATUS_COLUMN, UNKNOWN_ENTITY
from headrace.lake.training.training_set import (
    InvalidSpineError,
    TrainingSetRequest,
    training_set,
    training_set_with_status,
)
from tests.lake.test_historical_features import first_of_each_id, known_by, whole
from tests.oracle import brute
from tests.oracle.everything import every_aggregate, hostile_stream
from tests.oracle.several_streams import hostile_to, of_streams, payments, refunds, visits
from tests.oracle.streams import SECOND_US, Sent, hostile
from tests.oracle.test_kernel_is_brute_force import agrees

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STREAM = hostile_stream("payments", hr.Late("30s", then="update", until="5m"))
VIEW = every_aggregate("Everything", STREAM, ["card", "region"])


def moment(time_us: int | None) -> datetime | None:
    return None if time_us is None else EPOCH + timedelta(microseconds=time_us)


def clean_events(spark: SparkSession, sent: list[Sent], stream: hr.Stream = STREAM) -> DataFrame:
    """As the lake keeps them: typed, with duplicates, placed as in the log."""
    clean = [(offset, one) for offset, one in enumerate(sent) if brute.fate(stream, one) == "clean"]
    ddl = ", ".join(f"`{column.name}` {column.type}" for column in stream.schema)
    rows = [
        (*(_typed(column.type, one.values[column.name]) for column in stream.schema), moment(one.arrival_us), 0, offset)
        for offset, one in clean
    ]
    return spark.createDataFrame(rows, f"{ddl}, hr_arrival timestamp, hr_partition int, hr_offset bigint")


def _typed(kind: str, value: Any) -> Any:
    return moment(value) if kind == "timestamp" else value


@pytest.mark.parametrize("as_of", ["arrival", "event"])
def test_a_training_set_is_what_loops_over_events_say(spark: SparkSession, as_of: Any) -> None:
    chance = random.Random(7)
    sent = hostile(21, 600, 1_767_225_600 * SECOND_US, 3_600 * SECOND_US)
    clean = first_of_each_id(VIEW.streams[0], sent)
    entities = sorted({tuple(one.values[name] for name in VIEW.by) for one in sent}, key=str)
    rows = [(*chance.choice(entities), chance.choice(sent).arrival_us, number) for number in range(200)]
    spine = spark.createDataFrame(
        [(card, region, moment(at_us), number) for card, region, at_us, number in rows],
        "card string, region string, at timestamp, label int",
    )
    found = training_set(spark, spine, [VIEW], as_of=as_of, source={"payments": clean_events(spark, sent)}).collect()
    assert sorted(row["label"] for row in found) == list(range(200))
    for row in found:
        card, region, at_us, _ = rows[row["label"]]
        own = [] if region is None else known_by(VIEW, clean, at_us, as_of)
        expected = brute.features(VIEW, own, (card, region), at_us)
        for feature in VIEW.features:
            value = whole(row[feature.name])
            value = value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
            assert agrees(feature, value, *expected[feature.name]), (feature.name, card, region, at_us)


SEVERAL = (payments(hr.Late("5m")), visits(hr.Late("1m", then="drop")), refunds(hr.Late("30s", "update", "5m")))


@pytest.mark.parametrize(("as_of", "made"), [("arrival", every_aggregate), ("event", of_streams)])
def test_a_training_set_of_several_streams_is_what_loops_over_all_their_events_say(
    spark: SparkSession, as_of: Any, made: Callable[..., View]
) -> None:
    chance, view = random.Random(9), made("Several", SEVERAL, ["card", "shop"])
    sent = hostile_to(view.streams, 23, 400)
    clean = {stream: first_of_each_id(stream, sent[stream.name]) for stream in view.streams}
    frames = {stream.name: clean_events(spark, sent[stream.name], stream) for stream in view.streams}
    known_us = {
        stream: [one.arrival_us if as_of == "arrival" else one.values[stream.time] for one in own]
        for stream, own in clean.items()
    }
    asked = [one for own in sent.values() for one in own if one.values["shop"] is not None]
    rows = [(chance.choice(asked).values, chance.choice(asked).arrival_us, number) for number in range(150)]
    spine = spark.createDataFrame(
        [(values["card"], values["shop"], moment(at_us), number) for values, at_us, number in rows],
        "card string, shop bigint, at timestamp, label int",
    )
    found = training_set(spark, spine, [view], as_of=as_of, source=frames).collect()
    assert sorted(row["label"] for row in found) == list(range(150))
    for row in found:
        values, at_us, _ = rows[row["label"]]
        known = {
            stream.name: [one.values for one, us in zip(own, known_us[stream], strict=True) if us <= at_us]
            for stream, own in clean.items()
        }
        expected = brute.features(view, brute.united(view, known), (values["card"], values["shop"]), at_us)
        for feature in view.features:
            value = whole(row[feature.name])
            value = value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
            assert agrees(feature, value, *expected[feature.name]), (feature.name, values, at_us)


@hr.features(STREAM, by="card")
class Ratios:
    payments = hr.count(windows=["10m", "1h"])
    mean = hr.mean("units", windows="1h")
    burst = payments["10m"] / payments["1h"]
    ratio = hr.request("amount", "double") / mean["1h"]


def test_derived_features_and_those_of_a_request_stand_beside_the_kept_ones(spark: SparkSession) -> None:
    base = EPOCH + timedelta(days=20_000)
    one = {"id": "a", "card": "c1", "units": 4, "at": base}
    events = spark.createDataFrame(
        [(*(one.get(column.name) for column in STREAM.schema), base, 0, 0)],
        clean_events(spark, []).schema,
    )
    spine = spark.createDataFrame(
        [
            ("c1", base + timedelta(minutes=30), 8.0),
            ("c2", base, 1.0),
            (None, base, 1.0),
            ("c1", base - timedelta(1), 1.0),
        ],
        "card string, at timestamp, amount double",
    )
    found = training_set_with_status(spark, spine, [Ratios], TrainingSetRequest(source={"payments": events})).collect()
    status = f"{STATUS_COLUMN}_Ratios"
    by_status = {row[status]: row for row in found}
    assert set(by_status) == {FOUND, UNKNOWN_ENTITY, NO_KEY, BEFORE_FIRST_EVENT}
    assert (by_status[FOUND].burst, by_status[FOUND].ratio) == (0.0, 2.0)
    assert (
        by_status[UNKNOWN_ENTITY].payments_1h,
        by_status[UNKNOWN_ENTITY].burst,
        by_status[UNKNOWN_ENTITY].ratio,
    ) == (0, None, None)


@pytest.mark.parametrize(
    ("columns", "views", "as_of", "complaint"),
    [
        ("at timestamp", [Ratios], "arrival", "no column 'card'"),
        ("card string, at timestamp", [Ratios], "arrival", "no column 'amount'"),
        ("card string, at timestamp, amount double, burst int", [Ratios], "arrival", "named 'burst'"),
        ("card string, at timestamp, amount double", [Ratios], "noon", "as_of='noon'"),
        ("card string, at timestamp, amount double", [], "arrival", "No views"),
    ],
)
def test_a_spine_that_does_not_fit_is_refused_with_what_to_do(
    spark: SparkSession, columns: str, views: list[View], as_of: Any, complaint: str
) -> None:
    with pytest.raises(InvalidSpineError, match=complaint):
        training_set(spark, spark.createDataFrame([], columns), views, as_of=as_of, source={})


def test_a_frame_that_is_missing_is_named(spark: SparkSession) -> None:
    spine = spark.createDataFrame([], "card string, shop bigint, at timestamp")
    view = of_streams("Several", SEVERAL, ["card", "shop"])
    with pytest.raises(InvalidSpineError, match="no frame of the stream 'payments', only of visits"):
        training_set(spark, spine, [view], source={"visits": spine})


def test_two_views_of_one_stream_give_all_their_columns(spark: SparkSession) -> None:
    other = replace(every_aggregate("Other", STREAM, "card"), features=VIEW.features[:1])
    renamed = replace(other, features=tuple(replace(one, name=f"card_{one.name}") for one in other.features))
    events = clean_events(spark, hostile(4, 50))
    spine = spark.createDataFrame([("hot", "FR", EPOCH)], "card string, region string, at timestamp")
    frame = training_set(spark, spine, [VIEW, renamed], source={"payments": events})
    assert frame.columns == ["card", "region", "at", *VIEW.names, *renamed.names]
    assert frame.count() == 1


def test_a_session_may_have_a_time_zone_of_its_own(spark: SparkSession) -> None:
    spine = spark.createDataFrame([("c1", EPOCH, 5.0)], "card string, at timestamp, amount double")
    events = clean_events(spark, [])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        (row,) = training_set(spark, spine, [Ratios], source={"payments": events}).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (row["card"], row["payments_1h"], row["at"]) == ("c1", 0, spine.collect()[0]["at"])
