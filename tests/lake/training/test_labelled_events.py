"""Labelled events through Spark: each event's label and outcome equal brute force over what was known."""

import math
import random
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.models.label_policy import label_policy_of
from headrace.lake.training.labelled_events import (
    ArrivalWindow,
    current_time_us,
    labelled_events,
    labelled_training_set,
)
from headrace.monitoring.outcomes.batch_changes import build_case
from headrace.monitoring.outcomes.outcomes import LabelEvent, PredictionEvent, outcome_statuses
from tests.lake.training.test_training_set import moment

MINUTE_US = 60_000_000
START_US = 1_767_225_600_000_000
SAID = {"boolean": [True, False, None], "double": [1.5, -2.0, math.nan, math.inf, None]}
PLACE = "hr_arrival timestamp, hr_partition int, hr_offset bigint"

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)


@hr.features(payments, by="card")
class Spend:
    payments = hr.count(windows="10m")


def model(keep: Any, default: bool | None, kind: str) -> hr.Model:
    schema = f"id string, fraud {kind}, at timestamp"
    chargebacks = hr.Stream("chargebacks", schema=schema, id="id", key="id", time="at", late=hr.Late("5m"))
    labels = hr.Labels(chargebacks, value="fraud", within="10m", default=default, keep=keep)
    return hr.Model("fraud", on=payments, features=[Spend], fields=["amount"], file="any.onnx", labels=labels)


def events(chance: random.Random) -> list[tuple[Any, ...]]:
    """Payments with their times and offsets; some ids are repeated."""
    times = sorted(START_US + chance.randrange(40 * MINUTE_US) for _ in range(120))
    return [
        (f"p{chance.randrange(100)}", f"c{chance.randrange(3)}", float(n), at, at + chance.randrange(MINUTE_US), 0, n)
        for n, at in enumerate(times)
    ]


def labels(chance: random.Random, kind: str) -> list[tuple[Any, ...]]:
    """Labels of some, long before and after, twice, contradictory at the same time, of no value, of unknown ids."""
    times = [START_US + chance.randrange(-60, 110) * MINUTE_US // 2 for _ in range(250)]
    return [
        (f"p{chance.randrange(130)}", chance.choice(SAID[kind]), at, at + chance.randrange(6) * MINUTE_US, n % 2, n)
        for n, at in enumerate(times)
    ]


def expected(sent: list[Any], told: list[Any], until_us: int, keep: str, default: bool | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event_id, _, _, at, arrival, _, offset in sorted(sent, key=lambda one: one[4:]):
        if event_id in found or arrival > until_us:
            continue
        own = sorted(
            (label_at, label_arrival, partition, number, value)
            for label_id, value, label_at, label_arrival, partition, number in told
            if label_id == event_id and value is not None and math.isfinite(value)
            and label_at <= at + 10 * MINUTE_US and label_arrival <= until_us
            and arrival <= label_arrival + 15 * MINUTE_US and label_arrival <= at + 15 * MINUTE_US
        )  # fmt: skip
        if own:
            values = [value for *_, value in own]
            chosen = {"last": values[-1], "first": values[0], "any": max(values)}[keep]
        else:
            chosen = default if at + 15 * MINUTE_US <= until_us else None
        found[event_id] = (offset, chosen)
    return {str(offset): chosen for offset, chosen in found.values()}


def by_outcomes(sent: list[Any], told: list[Any], until_us: int, declared: hr.Labels) -> dict[str, Any]:
    """The outcomes of predictions made from the same events, once everything has arrived."""
    terms, found = label_policy_of(declared), {}
    for event_id, _, _, at, arrival, partition, offset in sorted(sent, key=lambda one: one[4:]):
        if event_id in found or arrival > until_us:
            continue
        scored = PredictionEvent("v1", "champion", 0.5, None, "{}", at, arrival, partition, offset)
        own = [
            LabelEvent(label_at, label_arrival, partition, number, value)
            for label_id, value, label_at, label_arrival, partition, number in told
            if label_id == event_id and value is not None and label_arrival <= until_us
        ]
        case = outcome_statuses(build_case([scored, *own], terms), terms, until_us + 1)
        found[event_id] = (offset, case["v1", "champion", scored.partition, offset].label)
    return {str(offset): label for offset, label in found.values()}


@pytest.mark.parametrize("keep", ["last", "first", "any"])
@pytest.mark.parametrize(("default", "kind"), [(False, "boolean"), (None, "double")])
def test_each_event_has_the_label_that_was_known_and_outcomes_agree(
    spark: SparkSession, keep: Any, default: bool | None, kind: str
) -> None:
    chance, declared = random.Random(f"{keep}{default}"), model(keep, default, kind)
    sent, told, until_us = events(chance), labels(chance, kind), START_US + 45 * MINUTE_US
    source = {
        "payments": spark.createDataFrame(
            [(i, c, a, moment(at), moment(arrival), p, o) for i, c, a, at, arrival, p, o in sent],
            f"id string, card string, amount double, at timestamp, {PLACE}",
        ),
        "chargebacks": spark.createDataFrame(
            [(i, v, moment(at), moment(arrival), p, o) for i, v, at, arrival, p, o in told],
            f"id string, fraud {kind}, at timestamp, {PLACE}",
        ),
    }
    assert declared.labels is not None
    found = labelled_events(spark, declared, declared.labels, source, ArrivalWindow(until_us)).collect()
    said = {str(int(row["amount"])): row["fraud"] for row in found}
    wanted = expected(sent, told, until_us, keep, default)
    assert said == wanted == by_outcomes(sent, told, until_us, declared.labels)
    assert len(found) == len(wanted)
    assert set(SAID[kind][:2]) <= set(wanted.values())
    assert default is False or None in wanted.values()

    recent = labelled_training_set(spark, declared, declared.labels, source, ArrivalWindow(until_us, 30 * MINUTE_US))
    arrived = {str(o): arrival for *_, arrival, _, o in sent}
    rows = {str(int(row["amount"])): row["fraud"] for row in recent.to_pylist()}
    oldest_us = until_us - 30 * MINUTE_US
    assert rows == {o: label for o, label in wanted.items() if label is not None and arrived[o] > oldest_us}
    assert all(row["payments_10m"] >= 1 for row in recent.to_pylist())  # its own event had arrived


def test_now_is_when_the_newest_arrived_where_labels_tell_their_own_arrivals(spark: SparkSession) -> None:
    live, chance = model("last", None, "boolean"), random.Random(1)
    assert live.labels is not None
    told_when = hr.Stream(
        "chargebacks", schema="id string, fraud boolean, at timestamp", id="id", key="id", time="at", arrival="at"
    )
    recorded = hr.Labels(told_when, value="fraud", within="10m")
    sent, told = events(chance), labels(chance, "boolean")
    source = {
        name: spark.createDataFrame([(moment(arrival),) for arrival in arrivals], "hr_arrival timestamp")
        for name, arrivals in (("payments", [one[4] for one in sent]), ("chargebacks", [one[3] for one in told]))
    }
    newest_us = max(*(one[4] for one in sent), *(one[3] for one in told))
    assert current_time_us(spark, live, recorded, source) == newest_us
    assert current_time_us(spark, live, live.labels, source) == pytest.approx(time.time_ns() // 1000, abs=60_000_000)
