"""Changes folded into tiles: what was known is taken out, what is known is put in, whole columns at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.evaluate.quality.bins import (
    CALIBRATION_OF_SCORE,
    LEAST_PROBABILITY,
    PLACES_IN_BIN,
    SCORE_EDGES,
    delay_bin,
    score_bin,
)
from headrace.evaluate.quality.changes import ABSENT, Changes, Known
from headrace.evaluate.quality.sums import SMALL_PIECES, large_pieces, small_pieces
from headrace.evaluate.quality.tile import CONFUSION, QualityKey, QualityLayout, QualityTile

Rows = NDArray[np.intp]
Integers = NDArray[np.int64]

AT_ONCE = 1024  # tiles: what a fold holds in memory beside its changes


def fold(layout: QualityLayout, changes: Changes) -> Iterator[tuple[QualityKey, QualityTile]]:
    """What the changes add to each tile they are about."""
    order = np.argsort(changes.tile, kind="stable")
    for first in range(0, len(changes.keys), AT_ONCE):
        keys = changes.keys[first : first + AT_ONCE]
        begin, end = np.searchsorted(changes.tile, [first, first + len(keys)], sorter=order)
        tiles = np.zeros((len(keys), layout.width), dtype=np.int64)
        _Fold(layout, changes.take(order[begin:end]), first, tiles).add()
        yield from ((key, QualityTile(layout, row)) for key, row in zip(keys, tiles, strict=True))


@dataclass(frozen=True)
class _Fold:
    """Some tiles in the making, the first of them by its place among all, and the changes they are made of."""

    layout: QualityLayout
    changes: Changes
    first: int
    tiles: Integers

    def add(self) -> None:
        before, after = self.changes.before, self.changes.after
        self._put("n", np.arange(len(self.changes.tile)), 0, 1)
        for known, sign in ((before, -1), (after, 1)):
            there = np.flatnonzero(known.state != ABSENT)
            self._put("states", there, known.state[there], sign)
            self._add_labels(known, np.flatnonzero(known.is_labelled), sign)
        self._put("corrections", np.flatnonzero(self._is_corrected()), 0, 1)
        self._add_predictions(_difference(before.is_predicted, after.is_predicted))
        self._add_delays(_difference(before.is_matched, after.is_matched))

    def _put(self, name: str, rows: Rows, places: Integers | int, amounts: Integers | int) -> None:
        """Add an amount for each row to a place of a partial, in the row's tile."""
        start = (self.changes.tile[rows] - self.first) * self.layout.width + self.layout.start(name)
        np.add.at(self.tiles.reshape(-1), start + places, amounts)

    def _is_corrected(self) -> NDArray[np.bool_]:
        before, after = self.changes.before, self.changes.after
        is_same = (before.label == after.label) | (np.isnan(before.label) & np.isnan(after.label))
        corrected: NDArray[np.bool_] = before.is_labelled & ~(after.is_labelled & is_same)
        return corrected

    def _add_delays(self, signs: Integers) -> None:
        rows = np.flatnonzero((signs != 0) & ~np.isnan(self.changes.delay_us))
        self._put("delays", rows, delay_bin(self.changes.delay_us[rows]), signs[rows])

    def _add_predictions(self, signs: Integers) -> None:
        """Every prediction's score, labelled or not."""
        rows = np.flatnonzero(signs)
        signs = signs[rows]
        scores = self.changes.score[rows]
        if self.layout.task == "regression":
            self._put("unusable", rows[~np.isfinite(scores)], 0, signs[~np.isfinite(scores)])
            return
        for place, is_so in enumerate((np.isnan(scores), scores < 0, scores > 1)):
            self._put("unusable", rows[is_so], place, signs[is_so])
        usable = _is_probability(scores)
        self._add_scores(rows[usable], scores[usable], signs[usable])

    def _add_scores(self, rows: Rows, scores: NDArray[np.float64], signs: Integers) -> None:
        bins = score_bin(scores)
        lower, upper = SCORE_EDGES[bins], SCORE_EDGES[bins + 1]
        places = np.rint((scores - lower) / (upper - lower) * PLACES_IN_BIN).astype(np.int64)
        self._put("scores", rows, bins, signs)
        self._put("places", rows, bins, signs * places)
        for number, least in enumerate(self.layout.thresholds):
            reached = scores >= least
            self._put("confusion", rows[reached], number * len(CONFUSION) + CONFUSION.index("reached"), signs[reached])

    def _add_labels(self, known: Known, rows: Rows, sign: int) -> None:
        labels, scores = known.label[rows], self.changes.score[rows]
        if self.layout.task == "regression":
            self._add_errors(rows, scores, labels, sign)
            return
        is_class = (labels == 0) | (labels == 1)
        self._put("unusable", rows[~is_class], 3, sign)
        rows, scores, truth = rows[is_class], scores[is_class], labels[is_class].astype(np.int64)
        self._put("labels", rows, truth, sign)
        for number, least in enumerate(self.layout.thresholds):
            self._put("confusion", rows, number * len(CONFUSION) + _confused(scores >= least, truth == 1), sign)
        usable = _is_probability(scores)
        self._add_pairs(rows[usable], scores[usable], truth[usable], sign)

    def _add_pairs(self, rows: Rows, scores: NDArray[np.float64], truth: Integers, sign: int) -> None:
        bins = score_bin(scores)
        self._put("negatives", rows[truth == 0], bins[truth == 0], sign)
        self._put("positives", rows[truth == 1], bins[truth == 1], sign)
        likely = np.clip(scores, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        self._put_small("log_loss", rows, -np.log(np.where(truth == 1, likely, 1 - likely)), 0, sign)
        self._put_small("brier", rows, (scores - truth) ** 2, 0, sign)
        self._put_small("calibration", rows, scores, CALIBRATION_OF_SCORE[bins] * SMALL_PIECES, sign)

    def _put_small(self, name: str, rows: Rows, values: NDArray[np.float64], places: Integers | int, sign: int) -> None:
        pieces = small_pieces(values)
        for piece in range(SMALL_PIECES):
            self._put(name, rows, places + piece, sign * pieces[:, piece])

    def _add_errors(self, rows: Rows, scores: NDArray[np.float64], labels: NDArray[np.float64], sign: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large to square is counted apart
            errors = scores - labels
            squared = errors**2
        comparable = np.isfinite(squared)
        self._put("unusable", rows[np.isfinite(scores) & ~comparable], 3, sign)
        rows, errors, squared = rows[comparable], errors[comparable], squared[comparable]
        self._put("compared", rows, 0, sign)
        for name, values in {"over": errors.clip(0), "under": (-errors).clip(0), "squared": squared}.items():
            places, pieces = large_pieces(values)
            for piece in range(places.shape[1]):
                self._put(name, rows, places[:, piece], sign * pieces[:, piece])


def _difference(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> Integers:
    return after.astype(np.int64) - before.astype(np.int64)


def _is_probability(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (scores >= 0) & (scores <= 1)


def _confused(reached: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Integers:
    """The place in CONFUSION of each pair of what was said and what was true."""
    return np.where(reached, np.where(truth, 0, 1), np.where(truth, 3, 2)).astype(np.int64)
