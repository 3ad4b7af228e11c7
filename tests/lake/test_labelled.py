"""Labelled events through Spark: of each event the label that loops over what was known say."""

import random
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.lake.labelled import Known, labelled_events, labelled_set, now_us
from tests.lake.test_training import moment

MINUTE_US = 60_000_000
START_US = 1_767_225_600_000_000
SAID = [True, False, None]
PLACE = "hr_arrival timestamp, hr_partition int, hr_offset bigint"

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)
chargebacks = hr.Stream(
    "chargebacks", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at", late=hr.Late("5m")
)


@hr.features(payments, by="card")
class Spend:
    payments = hr.count(windows="10m")


def model(keep: Any, default: bool | None) -> hr.Model:
    labels = hr.Labels(chargebacks, value="fraud", within="10m", default=default, keep=keep)
    return hr.Model("fraud", on=payments, features=[Spend], fields=["amount"], file="any.onnx", labels=labels)


def events(chance: random.Random) -> list[tuple[Any, ...]]:
    """Payments with their times and places; some ids come twice."""
    times = sorted(START_US + chance.randrange(40 * MINUTE_US) for _ in range(120))
    return [
        (f"p{chance.randrange(100)}", f"c{chance.randrange(3)}", float(n), at, at + chance.randrange(MINUTE_US), 0, n)
        for n, at in enumerate(times)
    ]


def labels(chance: random.Random) -> list[tuple[Any, ...]]:
    """Labels of some, before and after, twice, contradictory, null, of unknown ids."""
    return [
        (
            f"p{chance.randrange(130)}",
            chance.choice([True, False, None]),
            at,
            at + chance.randrange(5 * MINUTE_US),
            0,
            n,
        )
        for n, at in enumerate(START_US + chance.randrange(55 * MINUTE_US) for _ in range(150))
    ]


def expected(sent: list[Any], told: list[Any], until_us: int, keep: str, default: bool | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event_id, _, _, at, arrival, _, offset in sorted(sent, key=lambda one: one[4:]):
        if event_id in found or arrival > until_us:
            continue
        own = sorted(
            (label_at, label_arrival, number, value)
            for label_id, value, label_at, label_arrival, _, number in told
            if label_id == event_id and value is not None
            and label_at <= at + 10 * MINUTE_US and label_arrival <= until_us
        )  # fmt: skip
        if own:
            values = [value for *_, value in own]
            chosen = {"last": values[-1], "first": values[0], "any": max(values)}[keep]
        else:
            chosen = default if at + 15 * MINUTE_US <= until_us else None
        found[event_id] = (offset, chosen)
    return {str(offset): chosen for offset, chosen in found.values()}


@pytest.mark.parametrize("keep", ["last", "first", "any"])
@pytest.mark.parametrize("default", [False, None])
def test_each_event_has_the_label_that_was_known(spark: SparkSession, keep: Any, default: bool | None) -> None:
    chance, declared = random.Random(f"{keep}{default}"), model(keep, default)
    sent, told, until_us = events(chance), labels(chance), START_US + 45 * MINUTE_US
    source = {
        "payments": spark.createDataFrame(
            [(i, c, a, moment(at), moment(arrival), p, o) for i, c, a, at, arrival, p, o in sent],
            f"id string, card string, amount double, at timestamp, {PLACE}",
        ),
        "chargebacks": spark.createDataFrame(
            [(i, v, moment(at), moment(arrival), p, o) for i, v, at, arrival, p, o in told],
            f"id string, fraud boolean, at timestamp, {PLACE}",
        ),
    }
    assert declared.labels is not None
    found = labelled_events(spark, declared, declared.labels, source, Known(until_us)).collect()
    said = {str(int(row["amount"])): row["fraud"] for row in found}
    wanted = expected(sent, told, until_us, keep, default)
    assert said == wanted
    assert len(found) == len(wanted)
    assert {True, False} <= set(wanted.values())
    assert default is False or None in wanted.values()

    recent = labelled_set(spark, declared, declared.labels, source, Known(until_us, 30 * MINUTE_US))
    arrived = {str(o): arrival for *_, arrival, _, o in sent}
    rows = {str(int(row["amount"])): row["fraud"] for row in recent.to_pylist()}
    oldest_us = until_us - 30 * MINUTE_US
    assert rows == {o: label for o, label in wanted.items() if label is not None and arrived[o] > oldest_us}
    assert all(row["payments_10m"] >= 1 for row in recent.to_pylist())  # its own event had arrived


def test_now_is_when_the_newest_arrived_where_labels_tell_their_own_arrivals(spark: SparkSession) -> None:
    live, chance = model("last", None), random.Random(1)
    assert live.labels is not None
    told_when = hr.Stream(
        "chargebacks", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at", arrival="at"
    )
    recorded = hr.Labels(told_when, value="fraud", within="10m")
    sent, told = events(chance), labels(chance)
    source = {
        name: spark.createDataFrame([(moment(arrival),) for arrival in arrivals], "hr_arrival timestamp")
        for name, arrivals in (("payments", [one[4] for one in sent]), ("chargebacks", [one[3] for one in told]))
    }
    newest_us = max(*(one[4] for one in sent), *(one[3] for one in told))
    assert now_us(spark, live, recorded, source) == newest_us
    assert now_us(spark, live, live.labels, source) == pytest.approx(time.time_ns() // 1000, abs=60_000_000)
