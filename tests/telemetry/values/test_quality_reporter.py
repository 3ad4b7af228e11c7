"""The loss of quality against a model card, and the rate of labels, are reported, and raise the default alerts."""

import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score, root_mean_squared_error

import headrace as hr
from headrace.declare.app import build_app
from headrace.declare.durations import UNITS_US
from headrace.declare.models.metrics import MINUTE_US
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import QualityProgress
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.quality.quality_loss import quality_loss
from headrace.monitoring.quality.quality_tile import QualityKey, encode_key, encode_tile
from headrace.telemetry.alerts.default_alerts import app_alerts
from headrace.telemetry.values.quality_reporter import QualityReporter
from headrace.telemetry.values.quality_values import QualityValues
from tests.models.cards import card_for
from tests.monitoring.quality.histories import Country, events, model
from tests.monitoring.quality.tile_columns import tile_of
from tests.telemetry.alert_simulation import firing_after, metrics_text

FRAUD = model()
ROWS = {"train": 8_000, "test": 2_000, "train_label_above_zero": 1_600}
WAITED_US = 30 * MINUTE_US + FRAUD.labels.stream.late.until_us  # type: ignore[union-attr]


def pairs(seed: int, rows: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels, a fifth of them positive: the farther apart, the better the model."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.2).astype(float)
    return 1 / (1 + np.exp(-(rng.normal(size=rows) + apart * labels))), labels


def promoted(state: Path, **changed: object) -> None:
    versions = VersionStore(state, FRAUD.name)
    versions.add(b"", replace(card_for(b""), rows=ROWS, **changed))  # type: ignore[arg-type]
    versions.promote("1")


def known(*parts: tuple[int, np.ndarray, np.ndarray | None], of: hr.Model = FRAUD) -> QualityValues:
    """Quality in the format of its topic: scores and labels per minute."""
    quality = QualityValues([of])
    for minute, scores, labels in parts:
        key = QualityKey("1", "champion", (), minute * MINUTE_US)
        quality.tables[of.name].apply_record(encode_key(key), encode_tile(tile_of(of, scores, labels)))
    return quality


def judged(quality: QualityValues, state: Path, now_us: int) -> QualityProgress:
    told: list[QualityProgress] = []
    judge = QualityReporter([FRAUD], quality, state, told.append)
    judge.refresh(now_us)
    judge.refresh(now_us + MINUTE_US // 2)  # half a minute later there is no news
    (only,) = told
    return only


@pytest.mark.parametrize("seed", range(5))
def test_a_model_as_good_as_its_card_has_lost_nothing(seed: int, tmp_path: Path) -> None:
    trained, now = pairs(seed, 2_000, 2.0), pairs(seed + 100, 1_000, 2.0)
    promoted(tmp_path, metrics={"auc": roc_auc_score(trained[1], trained[0])})
    assert judged(known((0, *now)), tmp_path, WAITED_US + 2 * MINUTE_US).lost == 0.0


def test_what_is_lost_beyond_doubt_is_a_share_of_the_card(tmp_path: Path) -> None:
    trained, now = pairs(1, 2_000, 2.0), pairs(2, 20_000, 0.5)
    before, after = (roc_auc_score(labels, scores) for scores, labels in (trained, now))
    promoted(tmp_path, metrics={"auc": before})
    told = judged(known((0, *now)), tmp_path, WAITED_US + 2 * MINUTE_US)
    assert told.lost is not None
    assert 0.05 < told.lost < (before - after) / before
    assert told.lost > (before - after) / before - 0.08  # three standard errors of the card's 400 positives


def test_few_labels_lose_little_beyond_doubt(tmp_path: Path) -> None:
    trained, now = pairs(1, 2_000, 2.0), pairs(2, 40, 0.5)
    promoted(tmp_path, metrics={"auc": roc_auc_score(trained[1], trained[0])})
    told = judged(known((0, *now)), tmp_path, WAITED_US + 2 * MINUTE_US)
    assert told.lost is not None
    assert told.lost < 0.05


def test_what_is_not_due_yet_is_not_judged(tmp_path: Path) -> None:
    promoted(tmp_path, metrics={"auc": 0.9})
    told = judged(known((0, *pairs(1, 500, 0.0))), tmp_path, WAITED_US)
    assert (told.lost, told.coverage) == (None, None)


def test_a_card_that_promised_nothing_or_is_gone_loses_nothing(tmp_path: Path) -> None:
    quality, now_us = known((0, *pairs(1, 500, 0.0))), WAITED_US + 2 * MINUTE_US
    told = judged(quality, tmp_path, now_us)
    assert (told.lost, told.coverage) == (None, 1.0)
    promoted(tmp_path, metrics={"auc": None})
    assert judged(quality, tmp_path, now_us).lost is None


def test_a_regression_loses_by_its_mean_error() -> None:
    of, rng = model("loss"), np.random.default_rng(3)
    labels = rng.normal(size=5_000)
    before, after = labels + rng.normal(size=5_000), labels + 2 * rng.normal(size=5_000)
    mae, rmse = mean_absolute_error(labels, before), root_mean_squared_error(labels, before)
    card = replace(card_for(b""), kind="regression", metrics={"mae": mae, "rmse": rmse}, rows=ROWS)
    assert quality_loss(tile_of(of, before, labels), card) == 0.0
    share = quality_loss(tile_of(of, after, labels), card)
    assert share is not None
    assert 0.8 < share < mean_absolute_error(labels, after) / mae - 1


def test_coverage_is_of_labels_that_came(tmp_path: Path) -> None:
    promoted(tmp_path, metrics={"auc": None})
    scores, labels = pairs(1, 300, 1.0)
    quality = known((0, scores[:100], labels[:100]), (1, scores[100:], None))
    assert judged(quality, tmp_path, WAITED_US + 3 * MINUTE_US).coverage == pytest.approx(1 / 3)


def board_of(told: QualityProgress) -> ProgressTable:
    board = ProgressTable()
    board.put(replace(told, at_us=time.time_ns() // 1000))
    return board


@pytest.mark.parametrize(("apart", "labelled", "expected"), [
    (2.0, 2_000, set()),
    (0.5, 2_000, {"fraud: quality"}),
    (2.0, 600, {"fraud: label coverage"}),
])  # fmt: skip
def test_the_defaults_fire_on_lost_quality_and_missing_labels(
    apart: float, labelled: int, expected: set[str], tmp_path: Path
) -> None:
    trained, (scores, labels) = pairs(1, 2_000, 2.0), pairs(2, 2_000, apart)
    promoted(tmp_path, metrics={"auc": roc_auc_score(trained[1], trained[0])})
    quality = known((0, scores[:labelled], labels[:labelled]), (1, scores[labelled:], None))
    told = judged(quality, tmp_path, WAITED_US + 3 * MINUTE_US)
    module = ModuleType("shop")
    vars(module).update(events=events, Country=Country, fraud=FRAUD)
    alerts = app_alerts(build_app(module))
    assert firing_after(alerts, board_of(told), 61) == expected
    assert not firing_after(alerts, board_of(told), 14) & expected


def test_a_word_of_long_ago_is_told_no_more(tmp_path: Path) -> None:
    promoted(tmp_path, metrics={"auc": 0.9})
    told = judged(known((0, *pairs(1, 500, 0.0))), tmp_path, WAITED_US + 2 * MINUTE_US)
    assert 'headrace_quality_lost{model="fraud"}' in metrics_text(board_of(told))
    old = ProgressTable()
    old.put(replace(told, at_us=time.time_ns() // 1000 - UNITS_US["h"]))
    assert 'headrace_quality_lost{model="fraud"}' not in metrics_text(old)
