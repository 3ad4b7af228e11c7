"""kill -9 while predictions are joined with labels: nothing is lost, nothing counts twice, the books always balance."""

import random
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.local.broker import Broker
from tests.evaluate.joining import FAR_US, prepared, require_identity_at_every_moment, send, tell_time
from tests.evaluate.test_join import hostile, joining, require_standing, wait_for
from tests.lake.test_kills import child, wait_at_random


def endure(spark: SparkSession, broker: str, folder: Path, kills: int) -> None:
    name, dice, output = f"killed{kills}", random.Random(kills), folder / "child.out"
    model, told = prepared(broker, name, default=False), hostile(kills, events=25 * (kills + 1))
    cuts = [len(told) * part // (kills + 1) for part in range(kills + 2)]
    for begin, end in list(pairwise(cuts))[:-1]:
        send(broker, model, told[begin:end])
        with child("tests.evaluate.child_joins", broker, str(folder), name, output=output) as running:
            wait_at_random(dice, running, output.read_text, "joined", 4.0)
    send(broker, model, told[cuts[-2] :])
    with joining(spark, model, broker, folder) as join:
        wait_for(model, folder, told, 0)
        tell_time(broker, model, FAR_US)
        wait_for(model, folder, told, FAR_US)
        require_standing(join, told, FAR_US)
    assert require_identity_at_every_moment(folder / "lake", model) > kills


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_ten_kills_lose_nothing_and_count_nothing_twice(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    endure(spark, broker.address, tmp_path, kills=10)
