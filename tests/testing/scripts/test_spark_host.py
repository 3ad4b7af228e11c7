"""A script on Spark emits what the pure operator emits: windows of every shape, and across kills."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.testing import Script

AFTER = 60
CLICKS = (0, 25, 50, 75, 225, 250, 275, 300)  # two sessions, the first of which closes before late clicks come
SHAPES: dict[str, Any] = {
    "tumbling": hr.Tumbling("1m"),
    "sliding": hr.Sliding("2m", every="30s"),
    "session": hr.Session("40s"),
}


def clicks() -> hr.Stream:
    schema = "click string, user string, page string, amount double, at timestamp"
    return hr.Stream("clicks", schema=schema, id="click", key="user", time="at", late=hr.Late("1h"))


def windowed(shape: str, late: hr.Late, **more: Any) -> Any:
    columns = {"events": hr.count(), "spend": hr.sum("amount"), "pages": hr.distinct("page"), "last": hr.last("page")}
    return hr.windowed("visits", clicks(), by="user", over=SHAPES[shape], late=late, **more, **columns)


def second(number: int) -> str:
    return f"12:{number // 60:02}:{number % 60:02}"


def cells(script: Script) -> Script:
    """Users who click in time, each of whom also clicks so much behind the watermark: 30, 60 and 300 seconds."""
    arriving = [
        (at + late, at, late, behind)
        for behind in (30, 60, 300)
        for at, late in [*((number, 0) for number in CLICKS), (70, AFTER + behind), (105, AFTER + behind)]
    ]
    is_told = False
    for arrival, at, late, behind in sorted(arriving):
        if arrival >= 180 and not is_told:
            script.watermark("12:03")
            is_told = True
        script.at(second(at))
        script = script.late(by=f"{late}s") if late else script
        script.send(user=f"u{behind}", page=f"p{at}", amount=at / 4)
    return script.kill().watermark("12:30")


POLICIES = {
    "drop": hr.Late("60s", then="drop"),
    "side_output": hr.Late("60s", then="side_output"),
    "update": hr.Late("60s", then="update", until="180s"),
}
QUICK = [("tumbling", "drop"), ("sliding", "side_output"), ("session", "update")]
ALL = [(shape, then) for shape in SHAPES for then in POLICIES]


@pytest.mark.shows(
    "tumbling window", "sliding window", "session window", lane="micro-batch", late=("drop", "side_output", "update")
)
@pytest.mark.parametrize(
    ("shape", "then"),
    [pytest.param(*one, marks=() if one in QUICK else pytest.mark.faults) for one in ALL],
)
def test_late_events_are_the_same_on_spark(shape: str, then: str, spark: SparkSession, broker: EmbeddedBroker) -> None:
    script = cells(hr.testing.script(windowed(shape, POLICIES[then]))).on(spark, broker.address)
    late = 2 if then == "update" else 6
    assert len(script.rows("late")) == (0 if then == "drop" else late)
    assert sum(row["late_rows"] for row in script.rows("closed")) == late
    kinds = [row["kind"] for row in script.rows()]
    assert kinds.count("retraction") >= kinds.count("correction") > 0 if then == "update" else set(kinds) == {"result"}
