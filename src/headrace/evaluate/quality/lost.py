"""What a model has lost of the quality its card promised, as far as chance cannot have made it.

card 0.93 ├────────────────────┤ now 0.81
            lost   ├───────────┤ three standard errors of both, and what bins cannot tell: not counted as lost
"""

from math import hypot, sqrt
from typing import NamedTuple

from headrace.evaluate.quality import realised
from headrace.evaluate.quality.tile import QualityTile
from headrace.score.card import Card

SURE = 3.0  # standard errors
LEAST_DUE = 20


class _Estimate(NamedTuple):
    value: float
    doubt: float


def lost(due: QualityTile, card: Card) -> float | None:
    """The share of its card's AUC that a classification has lost, or by which a regression's mean error has grown."""
    promised, found = (_auc(due, card) if due.layout.task == "classification" else _error(due, card)) or (None, None)
    if promised is None or found is None:
        return None
    apart = promised.value - found.value if due.layout.task == "classification" else found.value - promised.value
    return max(0.0, apart - SURE * hypot(promised.doubt, found.doubt)) / promised.value


def label_coverage(due: QualityTile) -> float | None:
    """The share of predictions that have had all their time whose label came; None where they are few."""
    states = due.states
    predictions = sum(states.values()) - states["orphan"]
    return states["matched"] / predictions if predictions >= LEAST_DUE else None


def _auc(due: QualityTile, card: Card) -> tuple[_Estimate, _Estimate] | None:
    promised, rows = card.metrics.get("auc"), card.rows
    area, error = realised.auc(due)
    negatives, positives = float(due["negatives"].sum()), float(due["positives"].sum())
    if promised is None or area is None or not {"train", "test", "train_label_above_zero"} <= rows.keys():
        return None
    tested = rows["test"] * rows["train_label_above_zero"] / max(rows["train"], 1)  # as many as among those before
    in_card = _Estimate(promised, _auc_doubt(promised, tested, rows["test"] - tested))
    return in_card, _Estimate(area + error, _auc_doubt(area, positives, negatives))


def _auc_doubt(area: float, positives: float, negatives: float) -> float:
    """The standard error of an area (Hanley and McNeil 1982)."""
    first, second = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    spread = area * (1 - area) + max(positives - 1, 0) * first + max(negatives - 1, 0) * second
    return sqrt(max(spread, 0.0) / max(positives * negatives, 1.0))


def _error(due: QualityTile, card: Card) -> tuple[_Estimate, _Estimate] | None:
    promised, squared, tested = card.metrics.get("mae"), card.metrics.get("rmse"), card.rows.get("test")
    found, root = realised.mae(due).value, realised.rmse(due).value
    if not promised or squared is None or not tested or found is None or root is None:
        return None
    compared = int(due["compared"][0])
    return _Estimate(promised, _mean_doubt(promised, squared, tested)), _Estimate(
        found, _mean_doubt(found, root, compared)
    )


def _mean_doubt(mean: float, root_of_squares: float, rows: int) -> float:
    return sqrt(max(root_of_squares**2 - mean**2, 0.0) / max(rows, 1))
