"""Retraining: fits a model on current data, compares it with the champion, and promotes it or keeps it as a challenger.

labelled events by arrival ─▶ fit on the earlier ─▶ both score the latest ─▶ better: champion
                                                                          └▶ not: challenger, with the reason
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.declare.models.model import Model
from headrace.declare.models.retraining import Retrain
from headrace.errors import HeadraceError
from headrace.models.training.estimator_fit import score_frame
from headrace.models.training.training import TrainingConfig, TrainingResult, run_training
from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.version_loader import load_version
from headrace.models.versions.version_store import VersionStore
from headrace.monitoring.retraining.comparison import ComparisonData, PromotionDecision, decide_promotion


class TrainingFailed(HeadraceError):
    """A model's `train=` raised."""


@dataclass(frozen=True)
class RetrainingResult:
    """A new version, and the decision about it."""

    card: ModelCard
    decision: PromotionDecision


def retrain_model(
    model: Model, table: pa.Table, rules: Retrain, request: TrainingConfig, versions: VersionStore, reason: str
) -> RetrainingResult:
    """Retrain a model; the new version becomes champion if it is better by the rules, else a challenger."""
    training = _train(model, table, request)
    champion = versions.load_roles().champion
    decision = _compare_with_champion(model, training, rules, versions, champion)
    card_draft = replace(training.card, retrained={"why": reason, "against": champion, **decision.to_card_fields()})
    card = versions.add(training.fitted_model.content, card_draft)
    if decision.promoted:
        versions.promote(card.version)
    else:
        versions.add_challenger(card.version)
    return RetrainingResult(card, decision)


def _train(model: Model, table: pa.Table, request: TrainingConfig) -> TrainingResult:
    try:
        return run_training(model, table, request)
    except HeadraceError:
        raise
    except Exception as failure:
        raise TrainingFailed(
            f"Model {model.name!r}: its train= raised {type(failure).__name__}: {str(failure)[:300].rstrip('.')}. "
            "Its champion stays live."
        ) from failure


def _compare_with_champion(
    model: Model, training: TrainingResult, rules: Retrain, versions: VersionStore, champion: str | None
) -> PromotionDecision:
    if champion is None:
        return PromotionDecision(promoted=True, reason="there was no champion")
    try:
        loaded = load_version(model, versions.state, champion)
    except HeadraceError as failure:
        return PromotionDecision(promoted=False, reason=f"it cannot be compared: {failure}")
    latest = training.examples.frame[training.split.test].reset_index(drop=True)
    scores = score_frame(loaded.scorer, latest)
    not_finite = int((~np.isfinite(scores)).sum())
    if not_finite:
        problem = f"the champion returns no number for {not_finite} of the latest {len(latest)} labelled events"
        return PromotionDecision(promoted=False, reason=f"it cannot be compared: {problem}")
    comparison = ComparisonData(
        kind=training.fitted_model.kind,
        label=latest[model.label].to_numpy(),
        champion=scores,
        challenger=training.fitted_model.scores[training.split.test],
        segments={name: values[training.split.test] for name, values in training.examples.segments.items()},
    )
    return decide_promotion(comparison, rules)
