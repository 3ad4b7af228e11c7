"""A retraining is due an interval after the last, or when an alert has fired since; never twice for one reason."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.declare.durations import UNITS_US
from headrace.declare.models.retraining import Retrain
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.retraining.schedule import RetrainingSchedule
from headrace.monitoring.retraining.training_attempts import (
    ATTEMPT_FILE,
    AlreadyTrainingError,
    last_attempt_us,
    training_lock,
)

HOUR_US = UNITS_US["h"]


def test_so_long_after_the_last_time() -> None:
    schedule = RetrainingSchedule({"fraud": Retrain(every="7d"), "other": Retrain()}, {"fraud": 0, "other": 0})
    week_us = 7 * UNITS_US["d"]
    assert schedule.due_models(week_us - 1, {}) == {}
    assert schedule.due_models(week_us, {}) == {"fraud": "every 7d"}
    schedule = replace(schedule, last_attempts_us={"fraud": week_us, "other": 0})
    assert schedule.due_models(week_us + 1, {}) == {}


def test_an_alert_that_goes_on_firing_is_one_reason() -> None:
    schedule = RetrainingSchedule({"fraud": Retrain(when=["auc drop"])}, {"fraud": 5 * HOUR_US})
    assert schedule.due_models(6 * HOUR_US, {"auc drop": 4 * HOUR_US, "another": 6 * HOUR_US}) == {}
    assert schedule.due_models(7 * HOUR_US, {"auc drop": 6 * HOUR_US}) == {"fraud": "alert 'auc drop' fires"}
    schedule = replace(schedule, last_attempts_us={"fraud": 8 * HOUR_US})
    assert schedule.due_models(9 * HOUR_US, {"auc drop": 6 * HOUR_US}) == {}
    assert schedule.due_models(9 * HOUR_US, {"auc drop": 9 * HOUR_US}) == {"fraud": "alert 'auc drop' fires"}


def test_the_last_time_is_that_of_the_last_attempt_or_version(tmp_path: Path) -> None:
    versions = VersionStore(tmp_path, "fraud")
    assert last_attempt_us(versions, 7) == 7
    with training_lock(versions):
        pass
    os.utime(versions.folder / ATTEMPT_FILE, (1000, 1000))
    assert last_attempt_us(versions, 7) == 1000 * UNITS_US["s"]
    (versions.folder / "1").mkdir()
    os.utime(versions.folder / "1", (2000, 2000))
    assert last_attempt_us(versions, 7) == 2000 * UNITS_US["s"]


def test_of_two_who_know_of_the_same_attempt_one_trains(tmp_path: Path) -> None:
    versions = VersionStore(tmp_path, "fraud")
    known_us = last_attempt_us(versions, 7)
    with training_lock(versions, known_us):
        pass
    with pytest.raises(AlreadyTrainingError, match="retrained just now"), training_lock(versions, known_us):
        pass
    with training_lock(versions, last_attempt_us(versions, 7)):
        pass


def test_an_attempt_that_fails_is_one_and_one_that_has_not_ended_is_none(tmp_path: Path) -> None:
    versions = VersionStore(tmp_path, "fraud")
    seen = []
    with suppress(ZeroDivisionError), training_lock(versions):
        seen.append(last_attempt_us(versions, 7))
        raise ZeroDivisionError
    assert seen == [7]
    assert last_attempt_us(versions, 7) > 7
