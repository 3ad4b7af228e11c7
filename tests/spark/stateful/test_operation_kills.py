"""kill -9 while an operation runs: its output, deduplicated by id, is what the operator emits."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.spark.stateful.keyed_operator import BUCKET_COUNT
from tests.lake.test_kills import child, wait_at_random
from tests.spark.echo_operation import Echo, arrivals, new_keyed, pure, send, soon_us, spec_of, told, written
from tests.spark.stateful.test_operation_query import hosting, state_rows
from tests.waiting import wait_until


def endure(spark: SparkSession, broker: str, folder: Path, kills: int) -> None:
    keyed = new_keyed(broker, Echo(), name=f"killed{kills}")
    dice, output, events = random.Random(kills), folder / "child.out", []
    for number in range(kills):
        piece = arrivals(number, 200, soon_us(), keys=50, first=1000 * number)
        send(keyed, [*piece, *events[-60:]])  # a gate that was killed as well writes some again
        events += piece
        with child("tests.spark.child_operates", broker, str(folder), keyed.operation.name, output=output) as running:
            wait_at_random(dice, running, output.read_text, "ran", 4.0)
    wanted = pure(keyed, events)
    with hosting(spark, spec_of(keyed, folder)) as runner:
        wait_until(lambda: told(keyed).keys() >= wanted.keys(), 60, "all of it")
        wait_until(lambda: state_rows(runner) <= 2 * BUCKET_COUNT, 60, "all keys to be forgotten")
    assert told(keyed) == wanted
    again = len(written(keyed)) - len(wanted)
    assert 0 <= again < len(wanted), "what is written again is what was not committed"


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_twenty_kills_lose_nothing_and_make_nothing_else(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    endure(spark, broker.address, tmp_path, kills=20)
