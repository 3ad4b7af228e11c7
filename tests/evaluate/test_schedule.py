"""Models are due so long after the last time, or once an alert began to fire since then; never twice for one reason."""

import os
from pathlib import Path

from headrace.declare.durations import UNITS_US
from headrace.declare.retrain import Retrain
from headrace.evaluate.retrain import alone
from headrace.evaluate.schedule import Schedule, tried_us
from headrace.score.versions import Versions

HOUR_US = UNITS_US["h"]


def test_so_long_after_the_last_time() -> None:
    schedule = Schedule({"fraud": Retrain(every="7d"), "other": Retrain()}, {"fraud": 0, "other": 0})
    week_us = 7 * UNITS_US["d"]
    assert schedule.due(week_us - 1, {}) == {}
    assert schedule.due(week_us, {}) == {"fraud": "every 7d"}
    schedule.tried_us["fraud"] = week_us
    assert schedule.due(week_us + 1, {}) == {}


def test_an_alert_that_goes_on_firing_is_one_reason() -> None:
    schedule = Schedule({"fraud": Retrain(when=["auc drop"])}, {"fraud": 5 * HOUR_US})
    assert schedule.due(6 * HOUR_US, {"auc drop": 4 * HOUR_US, "another": 6 * HOUR_US}) == {}
    assert schedule.due(7 * HOUR_US, {"auc drop": 6 * HOUR_US}) == {"fraud": "alert 'auc drop' fires"}
    schedule.tried_us["fraud"] = 8 * HOUR_US
    assert schedule.due(9 * HOUR_US, {"auc drop": 6 * HOUR_US}) == {}
    assert schedule.due(9 * HOUR_US, {"auc drop": 9 * HOUR_US}) == {"fraud": "alert 'auc drop' fires"}


def test_the_last_time_is_that_of_the_last_attempt_or_version(tmp_path: Path) -> None:
    versions = Versions(tmp_path, "fraud")
    assert tried_us(versions, 7) == 7
    with alone(versions):
        pass
    attempt = next(versions.folder.iterdir())
    os.utime(attempt, (1000, 1000))
    assert tried_us(versions, 7) == 1000 * UNITS_US["s"]
    (versions.folder / "1").mkdir()
    os.utime(versions.folder / "1", (2000, 2000))
    assert tried_us(versions, 7) == 2000 * UNITS_US["s"]
