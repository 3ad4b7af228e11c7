"""Realised quality: what the outcomes that are known say, of one tile or of many merged."""

from fractions import Fraction
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.declare.costs import Costs
from headrace.evaluate.quality import curves
from headrace.evaluate.quality.bins import CALIBRATION_BINS, CALIBRATION_OF_SCORE, DELAY_EDGES_US
from headrace.evaluate.quality.curves import UNKNOWN, Reading
from headrace.evaluate.quality.sums import SMALL_PIECES, large_sum, small_sum
from headrace.evaluate.quality.tile import QualityTile

Floats = NDArray[np.float64]

_SECOND_US = 1_000_000


class Confusion(NamedTuple):
    """How many of which kind, or how many are expected."""

    true_positive: float
    false_positive: float
    true_negative: float
    false_negative: float

    @property
    def precision(self) -> Reading:
        return ratio(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> Reading:
        return ratio(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f_score(self) -> Reading:
        """Without a positive it is as unknown as the recall; where none was found it is 0."""
        if self.recall.value is None:
            return UNKNOWN
        return ratio(2 * self.true_positive, 2 * self.true_positive + self.false_positive + self.false_negative)

    def cost(self, costs: Costs) -> Reading:
        """Of one prediction, on average."""
        total = (
            self.true_positive * costs.true_positive
            + self.false_positive * costs.false_positive
            + self.true_negative * costs.true_negative
            + self.false_negative * costs.false_negative
        )
        return ratio(total, sum(self))


def ratio(part: float, whole: float) -> Reading:
    """A share; of nothing it is unknown."""
    return Reading(part / whole) if whole > 0 else UNKNOWN


def confusion(tile: QualityTile, least: float) -> Confusion:
    """The labelled predictions at a threshold; a score that is none reaches nothing."""
    return Confusion(*tile.integers[tile.layout.confusion(least)].tolist()[:4])


def auc(tile: QualityTile) -> Reading:
    return curves.auc(tile["negatives"], tile["positives"])


def average_precision(tile: QualityTile) -> Reading:
    return curves.average_precision(tile["negatives"], tile["positives"])


def log_loss(tile: QualityTile) -> Reading:
    return ratio(small_sum(tile["log_loss"]), _pairs(tile))


def brier(tile: QualityTile) -> Reading:
    return ratio(small_sum(tile["brier"]), _pairs(tile))


def base_rate(tile: QualityTile) -> Reading:
    negatives, positives = tile["labels"].tolist()
    return ratio(positives, negatives + positives)


def ece(tile: QualityTile) -> Reading:
    """By calibration bin the distance from what scores promised to what came, weighed by how many there are."""
    _, positives, promised = calibration(tile)
    return ratio(float(np.abs(promised - positives).sum()), _pairs(tile))


def calibration(tile: QualityTile) -> tuple[Floats, Floats, Floats]:
    """By calibration bin: labelled predictions, positives among them, the sum of their scores."""
    positives = _by_calibration(tile["positives"])
    negatives = _by_calibration(tile["negatives"])
    promised = [small_sum(pieces) for pieces in tile["calibration"].reshape(CALIBRATION_BINS, SMALL_PIECES)]
    return negatives + positives, positives, np.array(promised)


def mae(tile: QualityTile) -> Reading:
    return _mean(tile, over=1, under=1)


def bias(tile: QualityTile) -> Reading:
    """Above zero where scores are above labels."""
    return _mean(tile, over=1, under=-1)


def quantile_loss(tile: QualityTile, quantile: float) -> Reading:
    return _mean(tile, over=1 - quantile, under=quantile)


def rmse(tile: QualityTile) -> Reading:
    compared = int(tile["compared"][0])
    return Reading(sqrt(large_sum(tile["squared"]) / compared)) if compared else UNKNOWN


def coverage(tile: QualityTile) -> Reading:
    states = tile.states
    return ratio(states["matched"] + states["defaulted"], sum(states.values()) - states["orphan"])


def corrections(tile: QualityTile) -> Reading:
    return Reading(float(tile["corrections"][0]))


def label_delay(tile: QualityTile, quantile: float) -> Reading:
    """Seconds, known to a twentieth; under one second it is 0."""
    delays = tile["delays"]
    known = int(delays.sum())
    if known <= 0:
        return UNKNOWN
    place = int(np.searchsorted(np.cumsum(delays), quantile * known))
    if place == 0:
        return Reading(0.0, 1.0)
    lower = float(DELAY_EDGES_US[place - 1])
    upper = float(DELAY_EDGES_US[min(place, len(DELAY_EDGES_US) - 1)])
    return Reading((lower + upper) / 2 / _SECOND_US, (upper - lower) / 2 / _SECOND_US)


def _by_calibration(counts: NDArray[np.int64]) -> Floats:
    return np.bincount(CALIBRATION_OF_SCORE, counts, CALIBRATION_BINS).astype(np.float64)


def _pairs(tile: QualityTile) -> int:
    """Predictions with a label and a score from 0 to 1."""
    return int(tile["negatives"].sum() + tile["positives"].sum())


def _mean(tile: QualityTile, over: float, under: float) -> Reading:
    compared = int(tile["compared"][0])
    if not compared:
        return UNKNOWN
    total = Fraction(over) * large_sum(tile["over"]) + Fraction(under) * large_sum(tile["under"])
    return Reading(float(total / compared))
