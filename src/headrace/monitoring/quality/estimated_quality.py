"""Estimated quality: what scores predict for predictions without labels yet.

A score is the probability of a positive. It is scaled by the calibration of earlier scores of its size; the fewer
labels support that, the less. The estimate reflects changes of the scores' distribution, and cannot see changes of the
labels alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.monitoring.quality import curves
from headrace.monitoring.quality.bins import (
    CALIBRATION_BIN_BY_SCORE_BIN,
    MIN_PROBABILITY,
    POSITIONS_IN_BIN,
    SCORE_EDGES,
    score_bin,
)
from headrace.monitoring.quality.curves import QualityMetricValue
from headrace.monitoring.quality.quality_tile import CONFUSION_COUNTS, QualityTile
from headrace.monitoring.quality.realized_quality import ConfusionMatrix, calibration, ratio

Floats = NDArray[np.float64]

PRIOR_LABELS = 50  # the weight of the prior in a calibration bin, in labels that agree with the scores


class ExpectedOutcomes(NamedTuple):
    """By bin of scores: the number of predictions, their mean score, and the expected share of positives."""

    predictions: Floats
    score: Floats
    probability: Floats

    @property
    def positives(self) -> Floats:
        return self.predictions * self.probability

    @property
    def negatives(self) -> Floats:
        return self.predictions * (1 - self.probability)


def expected_outcomes(tile: QualityTile, settled: QualityTile) -> ExpectedOutcomes:
    """The expected outcomes of a tile's predictions, calibrated by settled ones, whose horizon has passed."""
    predictions = tile["scores"].astype(np.float64)
    positions = tile["places"] / (np.maximum(predictions, 1) * POSITIONS_IN_BIN)
    score = SCORE_EDGES[:-1] + positions * np.diff(SCORE_EDGES)
    return ExpectedOutcomes(predictions, score, _calibrate_scores(score, settled))


def confusion(outcomes: ExpectedOutcomes, tile: QualityTile, threshold: float) -> ConfusionMatrix:
    """The expected confusion matrix at a threshold: its bin is divided by the share of scores that reach it."""
    counts = tile.integers[tile.layout.confusion_slice(threshold)]
    bin_index = int(score_bin(np.array([threshold]).clip(0, 1))[0])
    reaching_predictions = np.where(np.arange(len(outcomes.predictions)) > bin_index, outcomes.predictions, 0.0)
    reaching_predictions[bin_index] = np.clip(
        counts[CONFUSION_COUNTS.index("reached")] - reaching_predictions.sum(), 0, outcomes.predictions[bin_index]
    )
    tp, total_positives = float((reaching_predictions * outcomes.probability).sum()), float(outcomes.positives.sum())
    fp, total_predictions = float(reaching_predictions.sum()) - tp, float(outcomes.predictions.sum())
    return ConfusionMatrix(tp, fp, total_predictions - total_positives - fp, total_positives - tp)


def auc(outcomes: ExpectedOutcomes) -> QualityMetricValue:
    return curves.auc(outcomes.negatives, outcomes.positives)


def average_precision(outcomes: ExpectedOutcomes) -> QualityMetricValue:
    return curves.average_precision(outcomes.negatives, outcomes.positives)


def base_rate(outcomes: ExpectedOutcomes) -> QualityMetricValue:
    return ratio(float(outcomes.positives.sum()), float(outcomes.predictions.sum()))


def log_loss(outcomes: ExpectedOutcomes) -> QualityMetricValue:
    score = outcomes.score.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    losses = -outcomes.positives * np.log(score) - outcomes.negatives * np.log(1 - score)
    return ratio(float(losses.sum()), float(outcomes.predictions.sum()))


def brier(outcomes: ExpectedOutcomes) -> QualityMetricValue:
    losses = outcomes.positives * (1 - outcomes.score) ** 2 + outcomes.negatives * outcomes.score**2
    return ratio(float(losses.sum()), float(outcomes.predictions.sum()))


def _calibrate_scores(score: Floats, settled: QualityTile) -> Floats:
    """Below one half the probability of a positive is scaled, above it that of a negative: the rarer one."""
    labelled, positives, score_sums = calibration(settled)
    predicted_rate = score_sums / np.maximum(labelled, 1)
    observed_rate = (positives + PRIOR_LABELS * predicted_rate) / (labelled + PRIOR_LABELS)
    bin_by_score_bin = CALIBRATION_BIN_BY_SCORE_BIN
    scaled_up = score * _calibration_ratio(observed_rate, predicted_rate)[bin_by_score_bin]
    scaled_down = 1 - (1 - score) * _calibration_ratio(1 - observed_rate, 1 - predicted_rate)[bin_by_score_bin]
    calibrated = np.where(bin_by_score_bin < bin_by_score_bin[-1] / 2, scaled_up, scaled_down)
    return np.where(labelled[bin_by_score_bin] > 0, calibrated.clip(0, 1), score)


def _calibration_ratio(observed_rate: Floats, predicted_rate: Floats) -> Floats:
    return observed_rate / np.maximum(predicted_rate, MIN_PROBABILITY)
