"""Training: an estimator fitted by the user's function, exported, compared with its ONNX, measured on later rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from headrace.declare.model import Model, Train
from headrace.declare.schema import Column
from headrace.errors import HeadraceError
from headrace.score.examples import Examples, Split
from headrace.score.export import to_network
from headrace.score.importance import importance_of
from headrace.score.scorer import NEVER_NULL, Scorer, Scores, scorer_of
from headrace.tiles.columns import Values

TOLERANCE = 1e-5
NULLED = 1000


class UnfitEstimator(HeadraceError):
    """What a model's `train=` returned is not what can be served."""


@dataclass(frozen=True)
class Fitted:
    """A trained model: its ONNX, how far that is from the estimator at most, how good it is, and each row's score."""

    content: bytes
    kind: str
    estimator: str
    columns: tuple[Column, ...]
    largest_difference: float
    metrics: dict[str, float | None]
    scores: Scores
    importance: dict[str, float] | None


def train_of(model: Model) -> Train:
    """The function that trains a model."""
    if model.train is None:
        raise UnfitEstimator(f"Model {model.name!r} has no train=, and so nothing to train. Give it one.")
    return model.train


def fit(model: Model, examples: Examples, split: Split) -> Fitted:
    """Train a model on the rows before the split, and measure it on those after."""
    frame = examples.frame
    estimator = train_of(model)(frame[split.train].reset_index(drop=True))
    kind, columns = _kind_of(estimator, model), _columns_of(estimator, model)
    content = to_network(estimator, columns)
    scorer = scorer_of(model, content, f"Model {model.name!r}")
    scores, label = scores_of(scorer, frame), frame[model.label].to_numpy()
    difference = _difference(scores, _expected(estimator, frame, columns, kind), f"Model {model.name!r}: on row")
    _require_nulls(model, estimator, scorer, with_nulls(model, frame, columns), kind)
    return Fitted(
        content=content,
        kind=kind,
        estimator=f"{type(estimator).__module__}.{type(estimator).__qualname__}",
        columns=columns,
        largest_difference=difference,
        metrics=measured(kind, label[split.test], scores[split.test]),
        scores=scores,
        importance=importance_of(estimator, frame[split.train], [column.name for column in columns]),
    )


def scores_of(scorer: Scorer, frame: pd.DataFrame) -> Scores:
    """The scores of a frame's rows."""
    return scorer.score({column.name: _values(frame[column.name].to_numpy()) for column in scorer.columns})


def _values(column: NDArray[Any]) -> Values:
    """A column of a frame, where NaN is null and a text is always there."""
    return Values(column, np.ones(len(column), np.bool_) if column.dtype == object else ~np.isnan(column))


def measured(kind: str, label: NDArray[Any], scores: Scores) -> dict[str, float | None]:
    """How good scores are; what one class alone cannot tell is None."""
    if kind == "regression":
        return {
            "rmse": float(metrics.root_mean_squared_error(label, scores)),
            "mae": float(metrics.mean_absolute_error(label, scores)),
        }
    has_both = len(np.unique(label)) == 2
    return {
        "auc": float(metrics.roc_auc_score(label, scores)) if has_both else None,
        "log_loss": float(metrics.log_loss(label, scores, labels=[0, 1])),
        "average_precision": float(metrics.average_precision_score(label, scores)) if has_both else None,
    }


def _kind_of(estimator: Any, model: Model) -> str:
    is_one = isinstance(estimator, BaseEstimator)
    if is_one and is_classifier(estimator) and hasattr(estimator, "predict_proba"):
        classes = np.asarray(estimator.classes_).tolist()
        if classes != [0, 1]:
            raise UnfitEstimator(
                f"Model {model.name!r}: its estimator knows the classes {classes}. A label is false or true, 0 or 1, "
                "and both must be among the rows that are fitted on."
            )
        return "classification"
    if is_one and is_regressor(estimator):
        return "regression"
    raise UnfitEstimator(
        f"Model {model.name!r}: train= returned {estimator!r:.200}. Return a fitted regressor, or a classifier with "
        "predict_proba."
    )


def _columns_of(estimator: Any, model: Model) -> tuple[Column, ...]:
    """The columns an estimator was fitted on, by the names it remembers."""
    names = _names_of(estimator)
    if names is None:
        if getattr(estimator, "n_features_in_", None) != len(model.vector.names):
            raise UnfitEstimator(
                f"Model {model.name!r}: its estimator was fitted without the names of columns, and not on all "
                f"{len(model.vector.names)} of them. Fit it on a frame: estimator.fit(frame[[…]], frame[…])."
            )
        return model.vector.columns
    if model.label in names:
        raise UnfitEstimator(
            f"Model {model.name!r}: its estimator was fitted on its own label {model.label!r}. "
            f"Drop it first: frame.drop(columns={model.label!r})."
        )
    for name in names:
        if name not in model.vector:
            raise UnfitEstimator(
                f"Model {model.name!r}: its estimator was fitted on {name!r}, which no request has. "
                f"Fit it on {', '.join(model.vector.names)}; compute the rest in a view."
            )
    return tuple(model.vector.column(name, model.name) for name in names)


def _names_of(estimator: Any) -> Sequence[str] | None:
    try:
        return [str(name) for name in estimator.feature_names_in_]
    except AttributeError:
        return None


def with_nulls(model: Model, frame: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Some rows of a frame with nulls where the server may answer null: half of them at random, and all at once."""
    kept = {one.name for view in model.views for one in view.features if one.aggregate.function in NEVER_NULL}
    nullable = [one.name for one in columns if one.name not in kept and one.name not in model.fields]
    some = frame.head(NULLED).copy()
    holes = np.random.default_rng(0).random((len(some), len(nullable))) < 0.5
    holes[-1:] = True
    for place, name in enumerate(nullable):
        some.loc[holes[:, place], name] = "" if some[name].dtype == object else np.nan
    return some


def _require_nulls(model: Model, estimator: Any, scorer: Scorer, frame: pd.DataFrame, kind: str) -> None:
    where = f"Model {model.name!r}: with nulls, which an entity never seen has, on row"
    try:
        expected = _expected(estimator, frame, scorer.columns, kind)
    except ValueError as failure:
        raise UnfitEstimator(
            f"Model {model.name!r}: its estimator takes no nulls, which an entity never seen has: {failure!s:.200} "
            "Put an imputer before it: make_pipeline(SimpleImputer(), …)."
        ) from failure
    _difference(scores_of(scorer, frame), expected, where)


def _expected(estimator: Any, frame: pd.DataFrame, columns: Sequence[Column], kind: str) -> Scores:
    own = frame[[column.name for column in columns]]
    given = own if _names_of(estimator) is not None else own.to_numpy()
    found = estimator.predict_proba(given)[:, 1] if kind == "classification" else estimator.predict(given)
    return np.asarray(found, np.float64).reshape(-1)


def _difference(scores: Scores, expected: Scores, where: str) -> float:
    """The largest difference, as a share of the largest score; above the tolerance the model is refused."""
    difference = np.abs(scores - expected) / max(1.0, float(np.nanmax(np.abs(expected))))
    worst = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
    if not difference[worst] <= TOLERANCE:
        raise UnfitEstimator(
            f"{where} {worst} its ONNX says {scores[worst]:.8g} and its estimator {expected[worst]:.8g}; "
            f"{int((~(difference <= TOLERANCE)).sum()):,} of {len(scores):,} rows differ. It is not kept. "
            "Try other settings of the estimator, an imputer before it, or another one."
        )
    return float(difference[worst])
