"""Realised quality: metrics of known outcomes, of one tile or of merged ones."""

from fractions import Fraction
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.declare.models.costs import Costs
from headrace.monitoring.quality import curves
from headrace.monitoring.quality.bins import CALIBRATION_BIN_BY_SCORE_BIN, CALIBRATION_BINS, DELAY_EDGES_US
from headrace.monitoring.quality.curves import UNKNOWN, QualityMetricValue
from headrace.monitoring.quality.fixed_point_sums import SMALL_PIECES, large_sum, small_sum
from headrace.monitoring.quality.quality_tile import QualityTile

Floats = NDArray[np.float64]

_SECOND_US = 1_000_000


class ConfusionMatrix(NamedTuple):
    """The counts of a confusion matrix, observed or expected."""

    true_positive: float
    false_positive: float
    true_negative: float
    false_negative: float

    @property
    def precision(self) -> QualityMetricValue:
        return ratio(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> QualityMetricValue:
        return ratio(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f_score(self) -> QualityMetricValue:
        """Unknown without positives, as the recall; 0 where none was found."""
        if self.recall.value is None:
            return UNKNOWN
        return ratio(2 * self.true_positive, 2 * self.true_positive + self.false_positive + self.false_negative)

    def cost(self, costs: Costs) -> QualityMetricValue:
        """The mean cost of a prediction."""
        total = (
            self.true_positive * costs.true_positive
            + self.false_positive * costs.false_positive
            + self.true_negative * costs.true_negative
            + self.false_negative * costs.false_negative
        )
        return ratio(total, sum(self))


def ratio(part: float, whole: float) -> QualityMetricValue:
    """A share; unknown for an empty whole."""
    return QualityMetricValue(part / whole) if whole > 0 else UNKNOWN


def confusion(tile: QualityTile, threshold: float) -> ConfusionMatrix:
    """The confusion matrix of labelled predictions at a threshold; an invalid score is below every threshold."""
    return ConfusionMatrix(*tile.integers[tile.layout.confusion_slice(threshold)].tolist()[:4])


def auc(tile: QualityTile) -> QualityMetricValue:
    return curves.auc(tile["negatives"], tile["positives"])


def average_precision(tile: QualityTile) -> QualityMetricValue:
    return curves.average_precision(tile["negatives"], tile["positives"])


def log_loss(tile: QualityTile) -> QualityMetricValue:
    return ratio(small_sum(tile["log_loss"]), _labeled_count(tile))


def brier(tile: QualityTile) -> QualityMetricValue:
    return ratio(small_sum(tile["brier"]), _labeled_count(tile))


def base_rate(tile: QualityTile) -> QualityMetricValue:
    negatives, positives = tile["labels"].tolist()
    return ratio(positives, negatives + positives)


def ece(tile: QualityTile) -> QualityMetricValue:
    """The weighted distance between scores and outcomes over the calibration bins."""
    _, positives, score_sums = calibration(tile)
    return ratio(float(np.abs(score_sums - positives).sum()), _labeled_count(tile))


def calibration(tile: QualityTile) -> tuple[Floats, Floats, Floats]:
    """By calibration bin: labelled predictions, positives among them, the sum of their scores."""
    positives = _calibration_counts(tile["positives"])
    negatives = _calibration_counts(tile["negatives"])
    score_sums = [small_sum(pieces) for pieces in tile["calibration"].reshape(CALIBRATION_BINS, SMALL_PIECES)]
    return negatives + positives, positives, np.array(score_sums)


def mae(tile: QualityTile) -> QualityMetricValue:
    return _mean_error(tile, over_weight=1, under_weight=1)


def bias(tile: QualityTile) -> QualityMetricValue:
    """The mean of score minus label: positive where scores are too high."""
    return _mean_error(tile, over_weight=1, under_weight=-1)


def quantile_loss(tile: QualityTile, quantile: float) -> QualityMetricValue:
    return _mean_error(tile, over_weight=1 - quantile, under_weight=quantile)


def rmse(tile: QualityTile) -> QualityMetricValue:
    compared = int(tile["compared"][0])
    return QualityMetricValue(sqrt(large_sum(tile["squared"]) / compared)) if compared else UNKNOWN


def coverage(tile: QualityTile) -> QualityMetricValue:
    states = tile.states
    return ratio(states["matched"] + states["defaulted"], sum(states.values()) - states["orphan"])


def corrections(tile: QualityTile) -> QualityMetricValue:
    return QualityMetricValue(float(tile["corrections"][0]))


def label_delay(tile: QualityTile, quantile: float) -> QualityMetricValue:
    """A quantile of label delays in seconds, to a twentieth; 0 under one second."""
    delays = tile["delays"]
    label_count = int(delays.sum())
    if label_count <= 0:
        return UNKNOWN
    bin_index = int(np.searchsorted(np.cumsum(delays), quantile * label_count))
    if bin_index == 0:
        return QualityMetricValue(0.0, 1.0)
    lower = float(DELAY_EDGES_US[bin_index - 1])
    upper = float(DELAY_EDGES_US[min(bin_index, len(DELAY_EDGES_US) - 1)])
    return QualityMetricValue((lower + upper) / 2 / _SECOND_US, (upper - lower) / 2 / _SECOND_US)


def _calibration_counts(score_counts: NDArray[np.int64]) -> Floats:
    return np.bincount(CALIBRATION_BIN_BY_SCORE_BIN, score_counts, CALIBRATION_BINS).astype(np.float64)


def _labeled_count(tile: QualityTile) -> int:
    """Predictions with a label and a score from 0 to 1."""
    return int(tile["negatives"].sum() + tile["positives"].sum())


def _mean_error(tile: QualityTile, over_weight: float, under_weight: float) -> QualityMetricValue:
    compared = int(tile["compared"][0])
    if not compared:
        return UNKNOWN
    total = Fraction(over_weight) * large_sum(tile["over"]) + Fraction(under_weight) * large_sum(tile["under"])
    return QualityMetricValue(float(total / compared))
