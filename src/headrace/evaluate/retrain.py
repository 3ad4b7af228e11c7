"""A model trained anew: fitted on what is known now, compared with the champion, promoted or kept to challenge it.

labelled events by arrival ─▶ fit on the earlier ─▶ both score the latest ─▶ better: champion
                                                                          └▶ not: challenger, with the reason
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.declare.model import Model
from headrace.declare.retrain import Retrain
from headrace.errors import HeadraceError
from headrace.evaluate.verdict import Match, Verdict, judge
from headrace.score.card import Card
from headrace.score.champions import load_version
from headrace.score.fit import scores_of
from headrace.score.train import Asked, Trained, trained
from headrace.score.versions import Versions


class TrainingRaised(HeadraceError):
    """A model's `train=` that raised."""


@dataclass(frozen=True)
class Retrained:
    """A new version, and what was decided about it."""

    card: Card
    verdict: Verdict


def retrain(model: Model, table: pa.Table, rules: Retrain, asked: Asked, versions: Versions, why: str) -> Retrained:
    """Train a model anew; the new version is champion if it is better by the rules, else it challenges."""
    done = _trained(model, table, asked)
    champion = versions.champion().champion
    verdict = _verdict(model, done, rules, versions, champion)
    noted = replace(done.card, retrained={"why": why, "against": champion, **verdict.noted()})
    card = versions.add(done.fitted.content, noted)
    if verdict.promoted:
        versions.promote(card.version)
    else:
        versions.challenge(card.version)
    return Retrained(card, verdict)


def _trained(model: Model, table: pa.Table, asked: Asked) -> Trained:
    try:
        return trained(model, table, asked)
    except HeadraceError:
        raise
    except Exception as failure:
        raise TrainingRaised(
            f"Model {model.name!r}: its train= raised {type(failure).__name__}: {str(failure)[:300].rstrip('.')}. "
            "Its champion goes on as it was."
        ) from failure


def _verdict(model: Model, done: Trained, rules: Retrain, versions: Versions, champion: str | None) -> Verdict:
    if champion is None:
        return Verdict(promoted=True, reason="there was no champion")
    try:
        loaded = load_version(model, versions.state, champion)
    except HeadraceError as failure:
        return Verdict(promoted=False, reason=f"it cannot be compared: {failure}")
    latest = done.examples.frame[done.split.test].reset_index(drop=True)
    scores = scores_of(loaded.scorer, latest)
    unknown = int((~np.isfinite(scores)).sum())
    if unknown:
        said = f"the champion answers no number to {unknown} of the latest {len(latest)} labelled events"
        return Verdict(promoted=False, reason=f"it cannot be compared: {said}")
    match = Match(
        kind=done.fitted.kind,
        label=latest[model.label].to_numpy(),
        champion=scores,
        challenger=done.fitted.scores[done.split.test],
        segments={name: values[done.split.test] for name, values in done.examples.segments.items()},
    )
    return judge(match, rules)
