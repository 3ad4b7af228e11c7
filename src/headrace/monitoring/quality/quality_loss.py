"""The significant loss of a model's quality relative to its card.

card 0.93 ├────────────────────┤ now 0.81
            lost   ├───────────┤ three standard errors of both, and the error of bins: not counted as lost
"""

from math import hypot, sqrt
from typing import NamedTuple

from headrace.models.versions.model_card import ModelCard
from headrace.monitoring.quality import realized_quality
from headrace.monitoring.quality.quality_tile import QualityTile

SIGNIFICANT_STANDARD_ERRORS = 3.0  # standard errors
MIN_DUE_PREDICTIONS = 20


class _MetricEstimate(NamedTuple):
    value: float
    standard_error: float


def quality_loss(due_tile: QualityTile, card: ModelCard) -> float | None:
    """The lost share of the card's AUC for a classifier; for a regressor, the growth of its mean error."""
    in_card, measured = (
        _auc_estimates(due_tile, card) if due_tile.layout.task == "classification" else _error_estimates(due_tile, card)
    ) or (None, None)
    if in_card is None or measured is None:
        return None
    difference = (
        in_card.value - measured.value if due_tile.layout.task == "classification" else measured.value - in_card.value
    )
    return (
        max(0.0, difference - SIGNIFICANT_STANDARD_ERRORS * hypot(in_card.standard_error, measured.standard_error))
        / in_card.value
    )


def label_coverage(due_tile: QualityTile) -> float | None:
    """The share of due predictions that have a label; None where there are few."""
    states = due_tile.states
    predictions = sum(states.values()) - states["orphan"]
    return states["matched"] / predictions if predictions >= MIN_DUE_PREDICTIONS else None


def _auc_estimates(due_tile: QualityTile, card: ModelCard) -> tuple[_MetricEstimate, _MetricEstimate] | None:
    card_auc, rows = card.metrics.get("auc"), card.rows
    area, error = realized_quality.auc(due_tile)
    negatives, positives = float(due_tile["negatives"].sum()), float(due_tile["positives"].sum())
    if card_auc is None or area is None or not {"train", "test", "train_label_above_zero"} <= rows.keys():
        return None
    tested_positives = (
        rows["test"] * rows["train_label_above_zero"] / max(rows["train"], 1)
    )  # the same share as in the card
    in_card = _MetricEstimate(
        card_auc, _auc_standard_error(card_auc, tested_positives, rows["test"] - tested_positives)
    )
    return in_card, _MetricEstimate(area + error, _auc_standard_error(area, positives, negatives))


def _auc_standard_error(area: float, positives: float, negatives: float) -> float:
    """The standard error of an area (Hanley and McNeil 1982)."""
    first, second = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    variance = area * (1 - area) + max(positives - 1, 0) * first + max(negatives - 1, 0) * second
    return sqrt(max(variance, 0.0) / max(positives * negatives, 1.0))


def _error_estimates(due_tile: QualityTile, card: ModelCard) -> tuple[_MetricEstimate, _MetricEstimate] | None:
    card_mae, card_rmse, tested_rows = card.metrics.get("mae"), card.metrics.get("rmse"), card.rows.get("test")
    mae, rmse = realized_quality.mae(due_tile).value, realized_quality.rmse(due_tile).value
    if not card_mae or card_rmse is None or not tested_rows or mae is None or rmse is None:
        return None
    compared = int(due_tile["compared"][0])
    return _MetricEstimate(card_mae, _mean_standard_error(card_mae, card_rmse, tested_rows)), _MetricEstimate(
        mae, _mean_standard_error(mae, rmse, compared)
    )


def _mean_standard_error(mean: float, root_mean_square: float, rows: int) -> float:
    return sqrt(max(root_mean_square**2 - mean**2, 0.0) / max(rows, 1))
