"""Estimated quality: what scores promise of predictions whose labels are still out.

A score says how likely a positive is. Where earlier scores of its size promised too much or too little, it is scaled to
what came of them; the fewer labels say so, the less. It sees what moves the scores, and is blind to what moves the
labels alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.evaluate.quality import curves
from headrace.evaluate.quality.bins import (
    CALIBRATION_OF_SCORE,
    LEAST_PROBABILITY,
    PLACES_IN_BIN,
    SCORE_EDGES,
    score_bin,
)
from headrace.evaluate.quality.curves import Reading
from headrace.evaluate.quality.realised import Confusion, calibration, ratio
from headrace.evaluate.quality.tile import CONFUSION, QualityTile

Floats = NDArray[np.float64]

TRUST = 50  # a calibration bin's labels count against this many that would have agreed with the scores


class Expected(NamedTuple):
    """By bin of scores: how many predictions, their mean score, and how likely each is positive."""

    predictions: Floats
    score: Floats
    likely: Floats

    @property
    def positives(self) -> Floats:
        return self.predictions * self.likely

    @property
    def negatives(self) -> Floats:
        return self.predictions * (1 - self.likely)


def expected(tile: QualityTile, settled: QualityTile) -> Expected:
    """What is expected of a tile's predictions, after what came of the settled ones: those whose horizon has passed."""
    predictions = tile["scores"].astype(np.float64)
    places = tile["places"] / (np.maximum(predictions, 1) * PLACES_IN_BIN)
    score = SCORE_EDGES[:-1] + places * np.diff(SCORE_EDGES)
    return Expected(predictions, score, _calibrated(score, settled))


def confusion(expectation: Expected, tile: QualityTile, least: float) -> Confusion:
    """What is expected at a threshold: the bin it lies in is shared by how many of it reach it."""
    counts = tile.integers[tile.layout.confusion(least)]
    at = int(score_bin(np.array([least]).clip(0, 1))[0])
    reaching = np.where(np.arange(len(expectation.predictions)) > at, expectation.predictions, 0.0)
    reaching[at] = np.clip(counts[CONFUSION.index("reached")] - reaching.sum(), 0, expectation.predictions[at])
    tp, total = float((reaching * expectation.likely).sum()), float(expectation.positives.sum())
    fp, all_of_them = float(reaching.sum()) - tp, float(expectation.predictions.sum())
    return Confusion(tp, fp, all_of_them - total - fp, total - tp)


def auc(expectation: Expected) -> Reading:
    return curves.auc(expectation.negatives, expectation.positives)


def average_precision(expectation: Expected) -> Reading:
    return curves.average_precision(expectation.negatives, expectation.positives)


def base_rate(expectation: Expected) -> Reading:
    return ratio(float(expectation.positives.sum()), float(expectation.predictions.sum()))


def log_loss(expectation: Expected) -> Reading:
    score = expectation.score.clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    losses = -expectation.positives * np.log(score) - expectation.negatives * np.log(1 - score)
    return ratio(float(losses.sum()), float(expectation.predictions.sum()))


def brier(expectation: Expected) -> Reading:
    losses = expectation.positives * (1 - expectation.score) ** 2 + expectation.negatives * expectation.score**2
    return ratio(float(losses.sum()), float(expectation.predictions.sum()))


def _calibrated(score: Floats, settled: QualityTile) -> Floats:
    """Below a half the chance of a positive is scaled, above it that of a negative: the rare one, in proportion."""
    labelled, positives, promised = calibration(settled)
    promise = promised / np.maximum(labelled, 1)
    came = (positives + TRUST * promise) / (labelled + TRUST)
    of_score = CALIBRATION_OF_SCORE
    up = score * _scale(came, promise)[of_score]
    down = 1 - (1 - score) * _scale(1 - came, 1 - promise)[of_score]
    calibrated = np.where(of_score < of_score[-1] / 2, up, down)
    return np.where(labelled[of_score] > 0, calibrated.clip(0, 1), score)


def _scale(came: Floats, promise: Floats) -> Floats:
    return came / np.maximum(promise, LEAST_PROBABILITY)
