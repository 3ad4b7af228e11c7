"""Outcomes through the lake: in rounds, what is written is what brute force says, once, however often it is stopped."""

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
from headrace.evaluate.book import Tiles
from headrace.evaluate.by_lake import LakeJoin
from headrace.evaluate.join import OtherTerms, Pace, Place
from headrace.evaluate.outcomes import Label, Scored
from headrace.evaluate.run import join_of
from headrace.evaluate.told import Feed
from headrace.local.broker import Broker
from headrace.stream.clock import Ends
from tests.evaluate.histories import Told
from tests.evaluate.joining import (
    FAR_US,
    lake_of,
    prepared,
    renumbered,
    require_identity_at_every_moment,
    send,
    standings,
)
from tests.evaluate.test_join import NOW_US, expected_of, hostile, require_standing, wait_for
from tests.lake.gated import land
from tests.waiting import patiently

DAY_US = UNITS_US["d"]
TIMELESS = Pace(clock_seconds=math.inf, report_seconds=0.2, round_seconds=0.2)
FEW = 40  # records a round, of about a hundred


class Fixed:
    """A clock that shows one time."""

    def __init__(self, at_us: int) -> None:
        self._at_us = at_us

    def look(self, joined: Ends) -> int:
        assert len({place.topic for place in joined}) == 2, "how far both topics have been read is known"
        return self._at_us


def landed(spark: SparkSession, broker: str, folder: Path, model: hr.Model) -> None:
    for landing in Feed(model, broker).landings:
        land(spark, broker, folder / "lake", landing)


def opened(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> LakeJoin:
    join = LakeJoin(spark, Feed(model, broker, FEW), Place(lake_of(broker, folder), folder, TIMELESS))
    join.open()
    return join


def rounds(join: LakeJoin) -> int:
    """Go on until there is no reason to; how many rounds that took."""
    taken = 0
    while join.go_on():
        taken += 1
    return taken


def rounds_in(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> int:
    """All rounds that there is reason for, by somebody who goes on where others were."""
    return rounds(opened(spark, model, broker, folder))


@contextmanager
def running(spark: SparkSession, model: hr.Model, broker: str, folder: Path) -> Iterator[LakeJoin]:
    timed = replace(TIMELESS, clock_seconds=0.0)
    join = LakeJoin(spark, Feed(model, broker, FEW), Place(lake_of(broker, folder), folder, timed))
    join._clock = Fixed(FAR_US)  # type: ignore[assignment]
    join.start()
    try:
        yield join
    finally:
        join.stop()
        join.join(patiently(30))


def test_rounds_write_brute_force_though_a_crash_comes_between_two_commits(
    spark: SparkSession, broker: Broker, tmp_path: Path
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
    join.book._folds = (_failing,)
    with pytest.raises(RuntimeError):
        join.go_on()
    again = opened(spark, model, broker.address, tmp_path)
    rounds(again)
    require_standing(again, told, 0)
    with running(spark, model, broker.address, tmp_path) as join:
        wait_for(model, tmp_path, told, FAR_US)
        require_standing(join, told, FAR_US)
    require_identity_at_every_moment(tmp_path / "lake", model)


def _failing(_changes: object, _tiles: Tiles) -> Tiles:
    raise RuntimeError("killed")


def test_recorded_history_closes_in_its_own_time(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    model = prepared(broker.address, within="2d", arrival="seen")
    told: list[Told] = []
    for day in range(12):
        at_us = NOW_US - (20 - day) * DAY_US
        told.append((f"p{day}", Scored("v1", "champion", 0.5, None, "{}", at_us, at_us, 0, day)))
        if day % 2:
            told.append((f"p{day}", Label(at_us + DAY_US, at_us + DAY_US, 0, day, 1.0)))
    send(broker.address, model, told)
    landed(spark, broker.address, tmp_path, model)
    join = opened(spark, model, broker.address, tmp_path)
    rounds(join)
    states = Counter(of[7] for of in standings(tmp_path / "lake", model))
    # The last event is of day 11 and the clock a day behind it: those of day 8 and later are open.
    assert states == {"matched": 6, "expired": 4, "pending": 2}
    assert standings(tmp_path / "lake", model) == expected_of(model, told, NOW_US - 10 * DAY_US)


def test_labels_that_are_declared_otherwise_are_refused(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    within = prepared(broker.address, "changing", within="2d")
    place = Place(lake_of(broker.address, tmp_path), tmp_path)
    join = join_of(spark, Feed(within, broker.address), place)
    assert isinstance(join, LakeJoin), "two days are too long for the stream"
    join.open()
    opened(spark, within, broker.address, tmp_path)
    other = prepared(broker.address, "changing", within="2d", default=False)
    with pytest.raises(OtherTerms, match="Undo the change; or move the checkpoint"):
        opened(spark, other, broker.address, tmp_path)
