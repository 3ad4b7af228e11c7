"""Lateness, its recommendation and its losses equal those that pandas finds by brute force."""

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.cli import main
from headrace.declare.durations import duration_us
from headrace.lake.ingestion.table_mapping import bronze_mapping
from headrace.lake.lake_table import LakeTable
from headrace.lake.lateness.lateness_measurement import (
    HUMAN_DURATIONS,
    NoEventsIngestedError,
    _build_report,
    first_arrivals,
    measure_lateness,
    recommend_late_us,
)
from headrace.lake.lateness.lateness_report import to_json, to_text

START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
taps = hr.Stream(
    "taps",
    schema="id string, card string, amount double, at timestamp",
    id="id",
    key="card",
    time="at",
    late=hr.Late("30s", then="drop"),
    check="amount >= -100",
)


@hr.features(taps, by="card")
class Spend:
    taps = hr.count(windows=["1m", "1h"])
    large = hr.count(where="amount > 50", windows="1h")
    spent = hr.sum("amount", windows="1h")
    largest = hr.max("amount", windows="1h")


def raw_rows(count: int) -> list[tuple[Any, ...]]:
    """Raw records of some hours: heavy-tailed lateness, duplicates, dead letters, NaN, and some ahead of time."""
    dice = np.random.default_rng(7)
    rows = []
    for number in range(count):
        arrival_us = START_US + number * 7_000_000
        lateness_us = int(dice.lognormal(15, 2)) - 2_000_000
        event = {
            "id": f"e{number}" if number % 9 else f"e{number // 2}",
            "card": "c",
            "amount": "NaN" if number % 31 == 0 else float(dice.normal(40, 30)),
            "at": datetime.fromtimestamp((arrival_us - lateness_us) / 1e6, UTC).isoformat(timespec="milliseconds"),
        }
        value = b"{broken" if number % 13 == 0 else json.dumps(event).encode()
        rows.append((value, arrival_us, number % 2, number // 2))
    return rows


def by_hand(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """The events by plain loops: read, judged, each id as it first came."""
    seen: dict[str, dict[str, Any]] = {}
    for value, arrival_us, _, _ in rows:
        if value == b"{broken":
            continue
        event = json.loads(value)
        event_us = round(datetime.fromisoformat(event["at"]).timestamp() * 1000) * 1000
        amount = float(event["amount"])
        lateness_us = arrival_us - event_us
        if amount < -100 or lateness_us < -60_000_000:
            continue
        seen.setdefault(
            event["id"],
            {"lateness": lateness_us, "amount": amount, "hour": datetime.fromtimestamp(arrival_us / 1e6, UTC).hour},
        )
    return pd.DataFrame(seen.values())


def delays_by_hand(frame: pd.DataFrame) -> dict[str, float]:
    late = frame["lateness"].to_numpy()
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "greatest": 1.0}
    figures = {f"{name}_ms": np.quantile(late, q, method="inverted_cdf") / 1000 for name, q in shares.items()}
    return {"events": len(late), **figures}


def lost_by_hand(frame: pd.DataFrame, late_us: int) -> dict[str, Any]:
    lost = frame["lateness"] > late_us
    amounts = frame["amount"].abs().where(np.isfinite(frame["amount"]), 0.0)
    large = frame["amount"].gt(50) | frame["amount"].isna()  # to Spark and to the kernel, NaN is above every number
    return {
        "events": lost.mean(),
        "Spend.taps_1m, taps_1h": lost.mean(),
        "Spend.large_1h": (lost & large).sum() / large.sum(),
        "Spend.spent_1h": amounts[lost].sum() / amounts.sum(),
    }


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> Any:
    made = spark.createDataFrame(
        [(bytearray(value), us, partition, offset) for value, us, partition, offset in rows],
        "value binary, us bigint, hr_partition int, hr_offset bigint",
    )
    return made.withColumn("hr_arrival", F.timestamp_micros("us")).withColumns(
        {"key": F.lit(None).cast("binary"), "topic": F.lit("taps")}
    )


def test_every_figure_is_the_one_that_loops_find(spark: SparkSession) -> None:
    rows = raw_rows(3000)
    found = to_json(_build_report(first_arrivals(frame_of(spark, rows), taps), taps, [Spend]))
    frame = by_hand(rows)
    wanted = delays_by_hand(frame)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert {int(hour): delays for hour, delays in found["by_hour"].items()} == {
        hour: pytest.approx(delays_by_hand(of_hour)) for hour, of_hour in frame.groupby("hour")
    }
    assert found["late"] == "30s"
    recommended_us = duration_us(found["recommended"], "late")
    for lost, late_us in zip(found["lost"], (0, 30_000_000, recommended_us), strict=True):
        said = {"events": lost["events"], **lost["features"]}
        assert said == pytest.approx(lost_by_hand(frame, late_us))


def test_the_recommendation_is_the_shortest_human_duration_above_one_and_a_half_p99() -> None:
    choices = [duration_us(text, "late") for text in HUMAN_DURATIONS]
    for p99_us in (-5, 0, 1, 666_666, 666_667, 40_000_000, 40_000_001, 10**12, 10**17):
        wanted = min((choice for choice in choices if choice >= 1.5 * p99_us), default=choices[-1])
        assert recommend_late_us(p99_us) == wanted
    assert choices == sorted(choices)


def test_a_feature_that_adds_up_to_nothing_has_no_share(spark: SparkSession) -> None:
    value = b'{"id":"a","card":"c","amount":null,"at":"2026-01-01T00:00:00Z"}'
    found = _build_report(first_arrivals(frame_of(spark, [(value, START_US + 1000, 0, 0)]), taps), taps, [Spend])
    assert found.losses[0].feature_shares["Spend.spent_1h"] is None
    assert found.losses[0].feature_shares["Spend.taps_1m, taps_1h"] == 1.0
    assert math.isclose(found.distribution.p99_us, 1000)
    assert "–" in to_text(found)


def test_the_share_of_a_view_of_several_streams_is_of_this_streams_part(spark: SparkSession) -> None:
    schema = "id string, card string, amount bigint, fee double, at timestamp"
    tips = hr.Stream("tips", schema="id string, card string, fee double, at timestamp", id="id", key="card", time="at")
    rides = hr.Stream("rides", schema=schema, id="id", key="card", time="at")

    @hr.features([rides, tips], by="card")
    class Both:
        number = hr.count(windows="1h")
        tips = hr.count(where="stream = 'tips'", windows="1h")
        rides = hr.count(where="stream = 'rides'", windows="1h")
        amount = hr.sum("amount", windows="1h")
        fee = hr.sum("fee", windows="1h")

    values = [(b"a", b"1", 0), (b"b", b"3", 20_000_000)]
    rows = [
        (b'{"id":"%b","card":"c","fee":%b,"at":"2026-01-01T00:00:00Z"}' % (event_id, fee), START_US + late_us, 0, n)
        for n, (event_id, fee, late_us) in enumerate(values)
    ]
    lost = _build_report(first_arrivals(frame_of(spark, rows), tips), tips, [Both]).losses[0]
    names = {name.removeprefix("Both."): share for name, share in lost.feature_shares.items()}
    assert names == {"number_1h": 0.5, "tips_1h": 0.5, "rides_1h": None, "amount_1h": None, "fee_1h": 0.75}


def test_a_lake_without_events_is_said(spark: SparkSession, tmp_path: Path) -> None:
    LakeTable(tmp_path, bronze_mapping(taps)).prepare()
    with pytest.raises(NoEventsIngestedError, match="No event of 'taps' is in the lake"):
        measure_lateness(spark, tmp_path, taps, [Spend])


def test_without_a_lake_there_is_nothing_to_measure() -> None:
    app = str(Path(__file__).parents[3] / "examples" / "fraud" / "app.py")
    said = CliRunner().invoke(main, ["lateness", app, "payments", "--lake", "off"])
    assert (said.exit_code, "--lake DIR" in said.output) == (1, True)
    said = CliRunner().invoke(main, ["lateness", app, "nothing"], env=dict(os.environ))
    assert (said.exit_code, "there is no stream 'nothing'" in said.output) == (1, True)
