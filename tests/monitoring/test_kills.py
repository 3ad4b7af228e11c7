"""kill -9 while predictions are joined with labels: nothing is lost or counts twice, and the counts balance."""

import random
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from tests.lake.test_kills import child, wait_at_random
from tests.monitoring.histories import Told
from tests.monitoring.outcomes.test_label_join import hostile, joining, require_standing, wait_for
from tests.monitoring.outcomes.test_lake_join import landed, rounds_in, running
from tests.monitoring.prediction_records import (
    FAR_US,
    prepared,
    renumbered,
    require_identity_at_every_moment,
    send,
    tell_time,
)


def killed_again_and_again(kind: str, broker: str, folder: Path, kills: int) -> tuple[hr.Model, list[Told]]:
    """A model and its records, all of them sent; the joining processes were killed before they had read all."""
    name, dice, output = f"killed-{kind}", random.Random(kills), folder / "child.out"
    model, told = prepared(broker, name, default=False), renumbered(hostile(kills, events=25 * (kills + 1)))
    cuts = [len(told) * part // (kills + 1) for part in range(kills + 2)]
    for begin, end in list(pairwise(cuts))[:-1]:
        send(broker, model, told[begin:end])
        with child("tests.monitoring.child_joins", kind, broker, str(folder), name, output=output) as joins:
            wait_at_random(dice, joins, output.read_text, "joined", 4.0)
    send(broker, model, told[cuts[-2] :])
    return model, told


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_ten_kills_lose_nothing_and_count_nothing_twice(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model, told = killed_again_and_again("stream", broker.address, tmp_path, kills=10)
    with joining(spark, model, broker.address, tmp_path) as join:
        wait_for(model, tmp_path, told, 0)
        tell_time(broker.address, model, FAR_US)
        wait_for(model, tmp_path, told, FAR_US)
        require_standing(join, told, FAR_US)
    assert require_identity_at_every_moment(tmp_path / "lake", model) > 10


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_ten_kills_of_rounds_lose_nothing_and_count_nothing_twice(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model, told = killed_again_and_again("lake", broker.address, tmp_path, kills=10)
    landed(spark, broker.address, tmp_path, model)
    rounds_in(spark, model, broker.address, tmp_path)
    wait_for(model, tmp_path, told, 0)
    with running(spark, model, broker.address, tmp_path) as join:
        wait_for(model, tmp_path, told, FAR_US)
        require_standing(join, told, FAR_US)
    assert require_identity_at_every_moment(tmp_path / "lake", model) > 10
