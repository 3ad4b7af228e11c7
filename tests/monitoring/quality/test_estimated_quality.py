"""Quality estimated from scores: sums, calibrated on earlier outcomes, close to the labels in the end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from headrace.declare.models.metrics import Metric
from headrace.monitoring.quality.bins import SCORE_EDGES, score_bin
from headrace.monitoring.quality.curves import QualityMetricValue
from headrace.monitoring.quality.metric_values import compute_metric
from headrace.monitoring.quality.quality_tile import QualityTile
from tests.monitoring.quality.histories import THRESHOLDS, model
from tests.monitoring.quality.tile_columns import tile_of

FRAUD = model()
SCORES = st.lists(st.floats(0, 1) | st.floats(0, 1e-4) | st.sampled_from([0.0, 0.25, 0.9, 1.0, 0.005]), min_size=1)
NOTHING = tile_of(FRAUD, [], None)


def read(metric: Metric, window: QualityTile, settled: QualityTile = NOTHING) -> QualityMetricValue:
    return compute_metric(metric, FRAUD, window, settled)


def value(metric: Metric, window: QualityTile, settled: QualityTile = NOTHING) -> float:
    found = read(metric, window, settled).value
    assert found is not None
    return found


@given(SCORES)
@settings(max_examples=60)
def test_without_labels_it_is_the_sum_over_raw_scores(scores: list[float]) -> None:
    window, raw = tile_of(FRAUD, scores, None), np.array(scores)
    assert value(FRAUD.base_rate("1h", estimated=True), window) == pytest.approx(raw.mean(), abs=1e-9)
    for name, least in THRESHOLDS.items():
        reached, at = raw >= least, int(score_bin(np.array([least]))[0])
        found = read(FRAUD.precision("1h", at=name, estimated=True), window).value
        if not reached.any():
            assert found is None
            continue
        shared = (score_bin(raw) == at).sum() * np.diff(SCORE_EDGES)[at] / reached.sum()
        assert found == pytest.approx(raw[reached].mean(), abs=shared + 1e-9)


@given(SCORES)
@settings(max_examples=60)
def test_the_expected_areas_are_those_of_each_score_as_so_much_of_either_class(scores: list[float]) -> None:
    window, raw = tile_of(FRAUD, scores, None), np.array(scores)
    both, weights = np.concatenate([raw, raw]), np.concatenate([raw, 1 - raw])
    labels = np.repeat([1, 0], len(raw))
    for metric, said in (
        (FRAUD.auc("1h", estimated=True), sk.roc_auc_score),
        (FRAUD.average_precision("1h", estimated=True), sk.average_precision_score),
    ):
        found = read(metric, window)
        if raw.sum() < 1e-6 or (metric.name == "estimated_auc" and (1 - raw).sum() < 1e-6):
            continue  # a class that is hardly there: rounding decides
        assert found.value is not None
        assert abs(found.value - said(labels, both, sample_weight=weights)) <= found.error + 1e-6


def test_it_is_near_what_labels_say_where_scores_are_right() -> None:
    chance = np.random.default_rng(6)
    scores = chance.beta(0.3, 3, 50_000)
    labelled = tile_of(FRAUD, scores, chance.random(len(scores)) < scores)
    for name in ("auc", "average_precision", "log_loss", "brier", "base_rate"):
        ask = getattr(FRAUD, name)
        assert value(ask("1h", estimated=True), labelled) == pytest.approx(value(ask("1h"), labelled), rel=0.06), name
    for name in ("precision", "recall", "f_score", "cost"):
        ask = getattr(FRAUD, name)
        promised, came = (value(ask("1h", at="review", estimated=some), labelled) for some in (True, False))
        assert promised == pytest.approx(came, rel=0.1), name


@pytest.mark.parametrize("times", [0.25, 0.5, 2.0])
def test_scores_that_promised_too_much_or_too_little_are_scaled_to_what_came(times: float) -> None:
    chance = np.random.default_rng(7)
    scores = chance.beta(0.3, 3, 100_000) / 2
    settled = tile_of(FRAUD, scores, chance.random(len(scores)) < times * scores)
    later = chance.beta(0.3, 3, 50_000) / 2
    window = tile_of(FRAUD, later, None)
    asked = FRAUD.base_rate("1h", estimated=True)
    assert value(asked, window) == pytest.approx(later.mean(), rel=1e-6)
    assert value(asked, window, settled) == pytest.approx(times * later.mean(), rel=0.1)


def test_a_handful_of_labels_hardly_moves_it() -> None:
    window, settled = tile_of(FRAUD, [0.11] * 100, None), tile_of(FRAUD, [0.11] * 2, [1.0, 1.0])
    assert value(FRAUD.base_rate("1h", estimated=True), window, settled) == pytest.approx(0.11 * 50 / 52 + 2 / 52)


def test_before_any_label_the_realised_is_unknown_and_the_estimate_is_there() -> None:
    window = tile_of(FRAUD, [0.1, 0.95], None)
    assert read(FRAUD.auc("1h"), window).value is None
    assert read(FRAUD.auc("1h", estimated=True), window).value is not None
    assert read(FRAUD.coverage("1h"), window).value == 0.0
