"""The label join through the lake: its batches equal brute force, once each, however often it is stopped."""

import logging
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.durations import UNITS_US
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.monitoring.label_join_factory import create_label_join
from headrace.monitoring.outcomes.batch_join import BatchLabelJoin
from headrace.monitoring.outcomes.join_inputs import LabelJoinInputs
from headrace.monitoring.outcomes.label_join import JoinIntervals, LabelPolicyChangedError, OutcomeJoinConfig
from headrace.monitoring.outcomes.outcome_writer import OutcomeTiles
from headrace.monitoring.outcomes.outcomes import LabelEvent, PredictionEvent
from headrace.spark.stateful.query_clock import EndOffsets
from tests.lake.batch_gate import land
from tests.monitoring.histories import Told
from tests.monitoring.outcomes.test_label_join import NOW_US, expected_of, hostile, require_standing, wait_for
from tests.monitoring.prediction_records import (
    FAR_US,
    lake_of,
    prepared,
    renumbered,
    require_identity_at_every_moment,
    send,
    standings,
)
from tests.waiting import patiently, wait_until

DAY_US = UNITS_US["d"]
TIMELESS = JoinIntervals(clock_seconds=math.inf, report_seconds=0.2, lake_batch_seconds=0.2)
FEW = 40  # records a round, of about a hundred


class Fixed:
    """A clock that shows one time."""

    def __init__(self, at_us: int) -> None:
        self._at_us = at_us

    def advance(self, joined: EndOffsets) -> int:
        assert len({place.topic for place in joined}) == 2, "how far both topics have been read is known"
        return self._at_us


def landed(spark: SparkSession, broker: str, folder: Path, model: hr.Model) -> None:
    for landing in LabelJoinInputs(model, broker).mappings:
        land(spark, broker, folder / "lake", landing)


def opened(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> BatchLabelJoin:
    join = BatchLabelJoin(
        spark, LabelJoinInputs(model, broker, FEW), OutcomeJoinConfig(lake_of(broker, folder), folder, TIMELESS)
    )
    join.open()
    return join


def rounds(join: BatchLabelJoin) -> int:
    """Run batches until none is due; returns their number."""
    taken = 0
    while join.run_batch():
        taken += 1
    return taken


def rounds_in(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> int:
    """Run all due batches in a new join, which resumes where the earlier one stopped."""
    return rounds(opened(spark, model, broker, folder))


@contextmanager
def running(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> Iterator[BatchLabelJoin]:
    timed = replace(TIMELESS, clock_seconds=0.0)
    join = BatchLabelJoin(
        spark, LabelJoinInputs(model, broker, FEW), OutcomeJoinConfig(lake_of(broker, folder), folder, timed)
    )
    join._clock = Fixed(FAR_US)  # type: ignore[assignment]
    join.start()
    try:
        yield join
    finally:
        join.stop()
        join.join(patiently(30))


def test_rounds_write_brute_force_though_a_crash_comes_between_two_commits(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    model, told = prepared(broker.address, default=False), renumbered(hostile(1, events=40))
    begin, middle, end = 0, len(told) // 2, len(told)
    send(broker.address, model, told[begin:middle])
    landed(spark, broker.address, tmp_path, model)
    join = opened(spark, model, broker.address, tmp_path)
    assert rounds(join) > 1, "a round takes so many records at most"
    assert standings(tmp_path / "lake", model) == expected_of(model, told[:middle], 0)
    require_standing(join, told[:middle], 0)

    send(broker.address, model, told[middle:end])
    landed(spark, broker.address, tmp_path, model)
    join.outcome_writer._folds = (_failing,)
    with pytest.raises(RuntimeError):
        join.run_batch()
    again = opened(spark, model, broker.address, tmp_path)
    rounds(again)
    require_standing(again, told, 0)
    with running(spark, model, broker.address, tmp_path) as join:
        wait_for(model, tmp_path, told, FAR_US)
        require_standing(join, told, FAR_US)
    require_identity_at_every_moment(tmp_path / "lake", model)


def _failing(_changes: object, _tiles: OutcomeTiles) -> OutcomeTiles:
    raise RuntimeError("killed")


def test_a_join_that_begins_before_the_lake_has_its_tables_waits_for_them_and_is_not_down(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.evaluate")
    model, told = prepared(broker.address, default=False), renumbered(hostile(4, events=10))
    send(broker.address, model, told)
    config = OutcomeJoinConfig(lake_of(broker.address, tmp_path), tmp_path, TIMELESS)
    join = BatchLabelJoin(spark, LabelJoinInputs(model, broker.address, FEW), config)
    join.start()
    try:
        wait_until(lambda: "waits for the tables" in caplog.text, 60, "it to wait")
        assert not (tmp_path / "lake" / "gold" / f"{model.name}_outcomes").exists()
        landed(spark, broker.address, tmp_path, model)
        wait_for(model, tmp_path, told, 0)
        assert join.has_warmed_up
    finally:
        join.stop()
        join.join(patiently(30))
    assert "has failed" not in caplog.text


def test_recorded_history_closes_in_its_own_time(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    model = prepared(broker.address, within="2d", arrival="seen")
    told: list[Told] = []
    for day in range(12):
        at_us = NOW_US - (20 - day) * DAY_US
        told.append((f"p{day}", PredictionEvent("v1", "champion", 0.5, None, "{}", at_us, at_us, 0, day)))
        if day % 2:
            told.append((f"p{day}", LabelEvent(at_us + DAY_US, at_us + DAY_US, 0, day, 1.0)))
    send(broker.address, model, told)
    landed(spark, broker.address, tmp_path, model)
    join = opened(spark, model, broker.address, tmp_path)
    rounds(join)
    states = Counter(of[7] for of in standings(tmp_path / "lake", model))
    # The last event is of day 11 and the clock a day behind it: those of day 8 and later are open.
    assert states == {"matched": 6, "expired": 4, "pending": 2}
    assert standings(tmp_path / "lake", model) == expected_of(model, told, NOW_US - 10 * DAY_US)


def test_labels_that_are_declared_otherwise_are_refused(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    within = prepared(broker.address, "changing", within="2d")
    place = OutcomeJoinConfig(lake_of(broker.address, tmp_path), tmp_path)
    join = create_label_join(spark, LabelJoinInputs(within, broker.address), place)
    assert isinstance(join, BatchLabelJoin), "two days are too long for the stream"
    join.open()
    opened(spark, within, broker.address, tmp_path)
    other = prepared(broker.address, "changing", within="2d", default=False)
    with pytest.raises(LabelPolicyChangedError, match="Undo the change; or move the checkpoint"):
        opened(spark, other, broker.address, tmp_path)
