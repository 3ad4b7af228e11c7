"""Folds changes into tiles: subtracts the previous status, adds the current one, whole columns at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.monitoring.quality.bins import (
    CALIBRATION_BIN_BY_SCORE_BIN,
    MIN_PROBABILITY,
    POSITIONS_IN_BIN,
    SCORE_EDGES,
    delay_bin,
    score_bin,
)
from headrace.monitoring.quality.fixed_point_sums import SMALL_PIECES, split_fixed_point, split_float
from headrace.monitoring.quality.outcome_changes import ABSENT, OutcomeChanges, OutcomeColumns
from headrace.monitoring.quality.quality_tile import CONFUSION_COUNTS, QualityKey, QualityLayout, QualityTile

Rows = NDArray[np.intp]
Integers = NDArray[np.int64]

TILES_AT_ONCE = 1024  # the tiles in memory during a fold


def fold_changes(layout: QualityLayout, changes: OutcomeChanges) -> Iterator[tuple[QualityKey, QualityTile]]:
    """The tiles that the changes add up to, by key."""
    order = np.argsort(changes.tile_index, kind="stable")
    for first_tile in range(0, len(changes.keys), TILES_AT_ONCE):
        keys = changes.keys[first_tile : first_tile + TILES_AT_ONCE]
        begin, end = np.searchsorted(changes.tile_index, [first_tile, first_tile + len(keys)], sorter=order)
        tiles = np.zeros((len(keys), layout.width), dtype=np.int64)
        _QualityFolder(layout, changes.take(order[begin:end]), first_tile, tiles).add_changes()
        yield from ((key, QualityTile(layout, row)) for key, row in zip(keys, tiles, strict=True))


@dataclass(frozen=True)
class _QualityFolder:
    """Tiles in progress, the index of the first one, and their changes."""

    layout: QualityLayout
    changes: OutcomeChanges
    first_tile: int
    tiles: Integers

    def add_changes(self) -> None:
        before, after = self.changes.before, self.changes.after
        self._add_amounts("n", np.arange(len(self.changes.tile_index)), 0, 1)
        for outcomes, sign in ((before, -1), (after, 1)):
            rows = np.flatnonzero(outcomes.state != ABSENT)
            self._add_amounts("states", rows, outcomes.state[rows], sign)
            self._add_labels(outcomes, np.flatnonzero(outcomes.is_labelled), sign)
        self._add_amounts("corrections", np.flatnonzero(self._is_corrected()), 0, 1)
        self._add_predictions(_presence_change(before.is_predicted, after.is_predicted))
        self._add_delays(_presence_change(before.is_matched, after.is_matched))

    def _add_amounts(self, name: str, rows: Rows, positions: Integers | int, amounts: Integers | int) -> None:
        """Add an amount for each row at a position of a partial, in the row's tile."""
        start = (self.changes.tile_index[rows] - self.first_tile) * self.layout.width + self.layout.start_index(name)
        np.add.at(self.tiles.reshape(-1), start + positions, amounts)

    def _is_corrected(self) -> NDArray[np.bool_]:
        before, after = self.changes.before, self.changes.after
        is_same = (before.label == after.label) | (np.isnan(before.label) & np.isnan(after.label))
        corrected: NDArray[np.bool_] = before.is_labelled & ~(after.is_labelled & is_same)
        return corrected

    def _add_delays(self, signs: Integers) -> None:
        rows = np.flatnonzero((signs != 0) & ~np.isnan(self.changes.delay_us))
        self._add_amounts("delays", rows, delay_bin(self.changes.delay_us[rows]), signs[rows])

    def _add_predictions(self, signs: Integers) -> None:
        """Add every prediction's score, labelled or not."""
        rows = np.flatnonzero(signs)
        signs = signs[rows]
        scores = self.changes.score[rows]
        if self.layout.task == "regression":
            self._add_amounts("unusable", rows[~np.isfinite(scores)], 0, signs[~np.isfinite(scores)])
            return
        for position, is_unusable in enumerate((np.isnan(scores), scores < 0, scores > 1)):
            self._add_amounts("unusable", rows[is_unusable], position, signs[is_unusable])
        is_usable = _is_probability(scores)
        self._add_scores(rows[is_usable], scores[is_usable], signs[is_usable])

    def _add_scores(self, rows: Rows, scores: NDArray[np.float64], signs: Integers) -> None:
        bins = score_bin(scores)
        lower, upper = SCORE_EDGES[bins], SCORE_EDGES[bins + 1]
        positions = np.rint((scores - lower) / (upper - lower) * POSITIONS_IN_BIN).astype(np.int64)
        self._add_amounts("scores", rows, bins, signs)
        self._add_amounts("places", rows, bins, signs * positions)
        for threshold_index, threshold in enumerate(self.layout.thresholds):
            is_reached = scores >= threshold
            self._add_amounts(
                "confusion",
                rows[is_reached],
                threshold_index * len(CONFUSION_COUNTS) + CONFUSION_COUNTS.index("reached"),
                signs[is_reached],
            )

    def _add_labels(self, outcomes: OutcomeColumns, rows: Rows, sign: int) -> None:
        labels, scores = outcomes.label[rows], self.changes.score[rows]
        if self.layout.task == "regression":
            self._add_errors(rows, scores, labels, sign)
            return
        is_class = (labels == 0) | (labels == 1)
        self._add_amounts("unusable", rows[~is_class], 3, sign)
        rows, scores, truth = rows[is_class], scores[is_class], labels[is_class].astype(np.int64)
        self._add_amounts("labels", rows, truth, sign)
        for threshold_index, threshold in enumerate(self.layout.thresholds):
            self._add_amounts(
                "confusion",
                rows,
                threshold_index * len(CONFUSION_COUNTS) + _confusion_index(scores >= threshold, truth == 1),
                sign,
            )
        is_usable = _is_probability(scores)
        self._add_pairs(rows[is_usable], scores[is_usable], truth[is_usable], sign)

    def _add_pairs(self, rows: Rows, scores: NDArray[np.float64], truth: Integers, sign: int) -> None:
        bins = score_bin(scores)
        self._add_amounts("negatives", rows[truth == 0], bins[truth == 0], sign)
        self._add_amounts("positives", rows[truth == 1], bins[truth == 1], sign)
        probabilities = np.clip(scores, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        self._add_small_sums("log_loss", rows, -np.log(np.where(truth == 1, probabilities, 1 - probabilities)), 0, sign)
        self._add_small_sums("brier", rows, (scores - truth) ** 2, 0, sign)
        self._add_small_sums("calibration", rows, scores, CALIBRATION_BIN_BY_SCORE_BIN[bins] * SMALL_PIECES, sign)

    def _add_small_sums(
        self, name: str, rows: Rows, values: NDArray[np.float64], positions: Integers | int, sign: int
    ) -> None:
        pieces = split_fixed_point(values)
        for piece in range(SMALL_PIECES):
            self._add_amounts(name, rows, positions + piece, sign * pieces[:, piece])

    def _add_errors(self, rows: Rows, scores: NDArray[np.float64], labels: NDArray[np.float64], sign: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # values too large to square are counted separately
            errors = scores - labels
            squared = errors**2
        is_comparable = np.isfinite(squared)
        self._add_amounts("unusable", rows[np.isfinite(scores) & ~is_comparable], 3, sign)
        rows, errors, squared = rows[is_comparable], errors[is_comparable], squared[is_comparable]
        self._add_amounts("compared", rows, 0, sign)
        for name, values in {"over": errors.clip(0), "under": (-errors).clip(0), "squared": squared}.items():
            positions, pieces = split_float(values)
            for piece in range(positions.shape[1]):
                self._add_amounts(name, rows, positions[:, piece], sign * pieces[:, piece])


def _presence_change(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> Integers:
    return after.astype(np.int64) - before.astype(np.int64)


def _is_probability(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (scores >= 0) & (scores <= 1)


def _confusion_index(is_reached: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Integers:
    """The index in CONFUSION of each pair of decision and truth."""
    return np.where(is_reached, np.where(truth, 0, 1), np.where(truth, 3, 2)).astype(np.int64)
