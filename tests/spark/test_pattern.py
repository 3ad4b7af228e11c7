"""A pattern on Spark and a broker emits what the pure operator emits, also across a kill."""

from random import Random

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.operations.pattern_outputs import PatternOutputs
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.testing import Script


def cards_tested() -> PatternOutputs:
    """Small amounts and no unknown one, then one that is greater."""
    schema = "id bigint, card string, amount double, seen timestamp, at timestamp"
    payments = hr.Stream("payments", schema=schema, id="id", key="card", time="at", late=hr.Late("1m"))
    return (
        hr.pattern("tested", by="card", within="1m", late=hr.Late("20s"))
        .step("small", where="amount < 2", times="2+", keep="seen")
        .never("unknown", where="amount is null")
        .then("large", where="amount > first(small.amount)", keep="amount")
        .on(payments)
    )


def paid(script: Script, seed: int) -> Script:
    """Payments of five cards in ten minutes, out of order, some too late, in two halves with a kill between them."""
    random = Random(seed)
    sent = [(second, random.choice([0, 0, 5, 15, 25])) for second in sorted(random.choices(range(600), k=200))]
    for number, (second, late) in enumerate(sorted(sent, key=sum)):
        if number == 100:
            script = script.kill().watermark(clock(second + late))
        script = script.at(clock(second))
        script = script.late(by=f"{late}s") if late else script
        amount = random.choice([1.0, 1.5, 3.0, None])
        script = script.send(
            id=number, card=f"c{random.randrange(5)}", amount=amount, seen=f"2026-01-01T{clock(second)}Z"
        )
    return script.watermark("13:00")


def clock(second: int) -> str:
    return f"12:{second // 60:02}:{second % 60:02}"


@pytest.mark.shows("pattern", lane="micro-batch", late="side_output")
def test_a_pattern_tells_the_same_on_spark(spark: SparkSession, broker: EmbeddedBroker) -> None:
    script = paid(hr.testing.script(cards_tested()), seed=8).on(spark, broker.address)
    assert min(len(script.rows(output)) for output in ("out", "timeouts", "late")) > 5  # played, and compared, here
