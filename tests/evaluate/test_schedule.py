"""Models are due so long after the last time, or once an alert began to fire since then; never twice for one reason."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.declare.durations import UNITS_US
from headrace.declare.retrain import Retrain
from headrace.evaluate.attempts import TRIED, AlreadyTraining, alone, tried_us
from headrace.evaluate.schedule import Schedule
from headrace.score.versions import Versions

HOUR_US = UNITS_US["h"]


def test_so_long_after_the_last_time() -> None:
    schedule = Schedule({"fraud": Retrain(every="7d"), "other": Retrain()}, {"fraud": 0, "other": 0})
    week_us = 7 * UNITS_US["d"]
    assert schedule.due(week_us - 1, {}) == {}
    assert schedule.due(week_us, {}) == {"fraud": "every 7d"}
    schedule = replace(schedule, tried_us={"fraud": week_us, "other": 0})
    assert schedule.due(week_us + 1, {}) == {}


def test_an_alert_that_goes_on_firing_is_one_reason() -> None:
    schedule = Schedule({"fraud": Retrain(when=["auc drop"])}, {"fraud": 5 * HOUR_US})
    assert schedule.due(6 * HOUR_US, {"auc drop": 4 * HOUR_US, "another": 6 * HOUR_US}) == {}
    assert schedule.due(7 * HOUR_US, {"auc drop": 6 * HOUR_US}) == {"fraud": "alert 'auc drop' fires"}
    schedule = replace(schedule, tried_us={"fraud": 8 * HOUR_US})
    assert schedule.due(9 * HOUR_US, {"auc drop": 6 * HOUR_US}) == {}
    assert schedule.due(9 * HOUR_US, {"auc drop": 9 * HOUR_US}) == {"fraud": "alert 'auc drop' fires"}


def test_the_last_time_is_that_of_the_last_attempt_or_version(tmp_path: Path) -> None:
    versions = Versions(tmp_path, "fraud")
    assert tried_us(versions, 7) == 7
    with alone(versions):
        pass
    os.utime(versions.folder / TRIED, (1000, 1000))
    assert tried_us(versions, 7) == 1000 * UNITS_US["s"]
    (versions.folder / "1").mkdir()
    os.utime(versions.folder / "1", (2000, 2000))
    assert tried_us(versions, 7) == 2000 * UNITS_US["s"]


def test_of_two_who_know_of_the_same_attempt_one_trains(tmp_path: Path) -> None:
    versions = Versions(tmp_path, "fraud")
    known_us = tried_us(versions, 7)
    with alone(versions, known_us):
        pass
    with pytest.raises(AlreadyTraining, match="trained anew just now"), alone(versions, known_us):
        pass
    with alone(versions, tried_us(versions, 7)):
        pass


def test_an_attempt_that_fails_is_one_and_one_that_has_not_ended_is_none(tmp_path: Path) -> None:
    versions = Versions(tmp_path, "fraud")
    seen = []
    with suppress(ZeroDivisionError), alone(versions):
        seen.append(tried_us(versions, 7))
        raise ZeroDivisionError
    assert seen == [7]
    assert tried_us(versions, 7) > 7
