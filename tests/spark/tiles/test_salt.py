"""A salted query folds an event into the part that its id alone selects: Spark and Python agree."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.features.view import View
from headrace.spark.checkpoints.state_plan import StatePlan
from headrace.spark.execution.execution_plan import plan_app, to_text
from headrace.spark.tiles.query_versions import IncompatibleChangeError, plan_query_versions, save_query_versions
from headrace.spark.tiles.tile_query import TileFoldConfig, TilePlan, fold_events, to_tile_inputs
from headrace.tiles.layout import hop_layouts, salted_layouts
from headrace.tiles.salt import salt_bucket
from headrace.tiles.tile import decode_key
from tests.server.server_thread import app_of_views

T0 = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IDS: dict[str, list[Any]] = {
    "string": [
        "",
        "p1",
        "p2",
        "é",
        "日本",
        "\U0001f600",
        "\uffff",
        'q"\\',
        "a" * 300,
        *(f"p{n}" for n in range(9, 40)),
    ],
    "bigint": [0, -1, 2**63 - 1, -(2**63), *range(7, 30)],
    "boolean": [True, False],
    "timestamp": [T0 + timedelta(microseconds=37 * number) for number in range(20)],
}


def declared(id_type: str, name: str = "Taps", salt: int = 8) -> View:
    stream = hr.Stream("taps", schema=f"id {id_type}, card string, at timestamp", id="id", key="card", time="at")
    return hr.features(stream, by="card", salt=salt)(type(name, (), {"taps": hr.count(windows=["1m", "1h"])}))


def tiles(spark: SparkSession, ids: list[Any], id_type: str, *views: View) -> DataFrame:
    """The changelog of one event of each id, all of one card and one time."""
    events = spark.createDataFrame([(one, "c", T0) for one in ids], f"id {id_type}, card string, at timestamp")
    event = F.struct("id", "card", "at").alias("event")
    stream = views[0].streams[0]
    once = to_tile_inputs(events.select(event, F.lit(7).cast("bigint").alias("arrival_us")), stream)
    return fold_events(once, TileFoldConfig(TilePlan(stream, views), {view.name: 4 for view in views}))


def counts(records: DataFrame, view: View) -> dict[str, int]:
    """How many events each version of the shortest hop has."""
    layout, found = hop_layouts(view)[0], [row for row in records.collect() if row["topic"] == view.topic]
    keys = [(decode_key(row["key"].encode()), orjson.loads(row["value"])["n"]) for row in found]
    return {key.version: n for key, n in keys if key.hop_us == layout.hop_us}


@pytest.mark.parametrize("id_type", IDS)
def test_spark_folds_an_event_into_the_part_that_its_id_decides(spark: SparkSession, id_type: str) -> None:
    view, ids = declared(id_type), IDS[id_type]
    parts = salted_layouts(hop_layouts(view)[0], view)
    expected: dict[str, int] = {}
    for one in ids:
        known = (one - EPOCH) // timedelta(microseconds=1) if isinstance(one, datetime) else one
        version = parts[salt_bucket(key_text(known), view.salt)].version
        expected[version] = expected.get(version, 0) + 1
    assert counts(tiles(spark, ids, id_type, view), view) == expected


def test_a_view_without_salt_beside_one_with_it_is_folded_whole(spark: SparkSession) -> None:
    plain, cut = declared("string", "Plain", salt=1), declared("string", "Cut")
    records = tiles(spark, IDS["string"], "string", plain, cut)
    assert counts(records, plain) == {hop_layouts(plain)[0].version: len(IDS["string"])}
    assert sum(counts(records, cut).values()) == len(IDS["string"])
    assert len(counts(records, cut)) > 4


def test_the_parts_of_one_entity_are_folded_by_several_tasks(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", False)  # which streams do not have
    session.conf.set("spark.sql.shuffle.partitions", 4)
    for salt, tasks in ((1, 1), (16, 4)):
        view = declared("string", salt=salt)
        records = tiles(session, IDS["string"], "string", view).select("key", F.spark_partition_id().alias("task"))
        shortest = f'"h":{hop_layouts(view)[0].hop_us},'
        assert len({row["task"] for row in records.collect() if shortest in row["key"]}) == tasks


def test_state_has_a_column_of_parts_only_where_a_view_is_cut() -> None:
    plain, cut = declared("string", "Plain", salt=1), declared("string", "Cut")
    assert not TilePlan(plain.streams[0], (plain,)).is_salted
    assert TilePlan(plain.streams[0], (plain, cut)).is_salted
    assert not TilePlan(cut.streams[0], (cut,), is_base=True).is_salted


def test_another_salt_is_another_definition(tmp_path: Any) -> None:
    plain, cut = declared("string", salt=1), declared("string", salt=8)
    stream = plain.streams[0]
    save_query_versions(plan_query_versions(stream, [plain], tmp_path, 2), tmp_path)
    changed = plan_query_versions(stream, [cut], tmp_path, 2)
    with pytest.raises(IncompatibleChangeError, match=r"`salt` changed from none to 8\..*--rebuild taps"):
        StatePlan((changed,), ()).require_compatible()
    rebuilt = plan_query_versions(stream, [cut], tmp_path, 2, rebuild=True)
    StatePlan((rebuilt,), ()).require_compatible()
    save_query_versions(rebuilt, tmp_path)
    with pytest.raises(IncompatibleChangeError, match="`salt` changed from 8 to none"):
        StatePlan((plan_query_versions(stream, [plain], tmp_path, 2),), ()).require_compatible()


def test_the_plan_tells_of_parts(tmp_path: Any) -> None:
    assert "each in up to 8 parts → taps_1m" in to_text(plan_app(app_of_views(declared("string")), tmp_path))
    assert "parts" not in to_text(plan_app(app_of_views(declared("string", salt=1)), tmp_path))


@pytest.mark.parametrize("salt", [0, -1, 65, 2.0, True, "8", None])
def test_what_is_no_salt_is_refused(salt: Any) -> None:
    with pytest.raises(hr.DeclarationError, match=r"Taps: salt=.*Write a whole number from 1, which is none, to 64"):
        declared("string", salt=salt)
