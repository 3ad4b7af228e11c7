"""Training: fits an estimator by the user's function, exports it, compares it with its ONNX, and measures it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import metrics
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.models.model import Model, TrainFunction
from headrace.declare.streams.schema import Column
from headrace.errors import HeadraceError
from headrace.models.inference.scorer import Scorer, Scores, load_scorer
from headrace.models.training.examples import TrainingExamples, TrainTestSplit
from headrace.models.training.feature_importance import estimator_importance
from headrace.models.training.onnx_export import export_to_onnx

TOLERANCE = 1e-5
NULL_TRIAL_ROWS = 1000


class InvalidEstimatorError(HeadraceError):
    """The object that a model's `train=` returned cannot be served."""


@dataclass(frozen=True)
class FittedModel:
    """A trained model: its ONNX, the largest difference from the estimator, its metrics, and each row's score."""

    content: bytes
    kind: str
    estimator: str
    columns: tuple[Column, ...]
    largest_difference: float
    metrics: dict[str, float | None]
    scores: Scores
    importance: dict[str, float] | None


def require_train_function(model: Model) -> TrainFunction:
    """The function that trains a model."""
    if model.train is None:
        raise InvalidEstimatorError(f"Model {model.name!r} has no train=, and so nothing to train. Give it one.")
    return model.train


def fit_model(model: Model, examples: TrainingExamples, split: TrainTestSplit) -> FittedModel:
    """Train a model on the rows before the split, and measure it on those after."""
    frame = examples.frame
    estimator = require_train_function(model)(frame[split.train].reset_index(drop=True))
    kind, columns = _estimator_kind(estimator, model), _fitted_columns(estimator, model)
    content = export_to_onnx(estimator, columns)
    scorer = load_scorer(model, content, f"Model {model.name!r}")
    scores, label = score_frame(scorer, frame), frame[model.label].to_numpy()
    difference = _require_equal_scores(
        scores, _estimator_scores(estimator, frame, columns, kind), f"Model {model.name!r}: on row"
    )
    _require_null_support(model, estimator, scorer, sample_with_nulls(model, frame, columns), kind)
    return FittedModel(
        content=content,
        kind=kind,
        estimator=f"{type(estimator).__module__}.{type(estimator).__qualname__}",
        columns=columns,
        largest_difference=difference,
        metrics=compute_metrics(kind, label[split.test], scores[split.test]),
        scores=scores,
        importance=estimator_importance(estimator, frame[split.train], [column.name for column in columns]),
    )


def score_frame(scorer: Scorer, frame: pd.DataFrame) -> Scores:
    """The scores of a frame's rows."""
    return scorer.score({column.name: _to_values(frame[column.name].to_numpy()) for column in scorer.columns})


def _to_values(column: NDArray[Any]) -> ValueColumn:
    """A column of a frame as values: NaN becomes null, and texts are never null."""
    return ValueColumn(column, np.ones(len(column), np.bool_) if column.dtype == object else ~np.isnan(column))


def compute_metrics(kind: str, label: NDArray[Any], scores: Scores) -> dict[str, float | None]:
    """The metrics of scores; those that are undefined for a single class are None."""
    if kind == "regression":
        return {
            "rmse": float(metrics.root_mean_squared_error(label, scores)),
            "mae": float(metrics.mean_absolute_error(label, scores)),
        }
    has_both_classes = len(np.unique(label)) == 2
    return {
        "auc": float(metrics.roc_auc_score(label, scores)) if has_both_classes else None,
        "log_loss": float(metrics.log_loss(label, scores, labels=[0, 1])),
        "average_precision": float(metrics.average_precision_score(label, scores)) if has_both_classes else None,
    }


def _estimator_kind(estimator: Any, model: Model) -> str:
    is_estimator = isinstance(estimator, BaseEstimator)
    if is_estimator and is_classifier(estimator) and hasattr(estimator, "predict_proba"):
        classes = np.asarray(estimator.classes_).tolist()
        if classes != [0, 1]:
            raise InvalidEstimatorError(
                f"Model {model.name!r}: its estimator knows the classes {classes}. A label is false or true, 0 or 1, "
                "and both must be among the rows that are fitted on."
            )
        return "classification"
    if is_estimator and is_regressor(estimator):
        return "regression"
    raise InvalidEstimatorError(
        f"Model {model.name!r}: train= returned {estimator!r:.200}. Return a fitted regressor, or a classifier with "
        "predict_proba."
    )


def _fitted_columns(estimator: Any, model: Model) -> tuple[Column, ...]:
    """The columns an estimator was fitted on, by the names it stores."""
    names = _feature_names(estimator)
    if names is None:
        if getattr(estimator, "n_features_in_", None) != len(model.vector.names):
            raise InvalidEstimatorError(
                f"Model {model.name!r}: its estimator was fitted without the names of columns, and not on all "
                f"{len(model.vector.names)} of them. Fit it on a frame: estimator.fit(frame[[…]], frame[…])."
            )
        return model.vector.columns
    if model.label in names:
        raise InvalidEstimatorError(
            f"Model {model.name!r}: its estimator was fitted on its own label {model.label!r}. "
            f"Drop it first: frame.drop(columns={model.label!r})."
        )
    for name in names:
        if name not in model.vector:
            raise InvalidEstimatorError(
                f"Model {model.name!r}: its estimator was fitted on {name!r}, which no request has. "
                f"Fit it on {', '.join(model.vector.names)}; compute the rest in a view."
            )
    return tuple(model.vector.column(name, model.name) for name in names)


def _feature_names(estimator: Any) -> Sequence[str] | None:
    try:
        return [str(name) for name in estimator.feature_names_in_]
    except AttributeError:
        return None


def sample_with_nulls(model: Model, frame: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Some rows of a frame with nulls where the server may return null: half of them at random, and all at once."""
    never_null_names = {
        item.name for view in model.views for item in view.features if not item.aggregate.result_type.is_nullable
    }
    nullable_names = [one.name for one in columns if one.name not in never_null_names and one.name not in model.fields]
    sample = frame.head(NULL_TRIAL_ROWS).copy()
    null_mask = np.random.default_rng(0).random((len(sample), len(nullable_names))) < 0.5
    null_mask[-1:] = True
    for index, name in enumerate(nullable_names):
        sample.loc[null_mask[:, index], name] = "" if sample[name].dtype == object else np.nan
    return sample


def _require_null_support(model: Model, estimator: Any, scorer: Scorer, frame: pd.DataFrame, kind: str) -> None:
    where = f"Model {model.name!r}: with nulls, which an entity never seen has, on row"
    try:
        expected = _estimator_scores(estimator, frame, scorer.columns, kind)
    except ValueError as failure:
        raise InvalidEstimatorError(
            f"Model {model.name!r}: its estimator takes no nulls, which an entity never seen has: {failure!s:.200} "
            "Put an imputer before it: make_pipeline(SimpleImputer(), …)."
        ) from failure
    _require_equal_scores(score_frame(scorer, frame), expected, where)


def _estimator_scores(estimator: Any, frame: pd.DataFrame, columns: Sequence[Column], kind: str) -> Scores:
    inputs = frame[[column.name for column in columns]]
    estimator_input = inputs if _feature_names(estimator) is not None else inputs.to_numpy()
    predicted = (
        estimator.predict_proba(estimator_input)[:, 1]
        if kind == "classification"
        else estimator.predict(estimator_input)
    )
    return np.asarray(predicted, np.float64).reshape(-1)


def _require_equal_scores(scores: Scores, expected: Scores, where: str) -> float:
    """The largest difference, as a share of the largest score; rejects the model above the tolerance."""
    difference = np.abs(scores - expected) / max(1.0, float(np.nanmax(np.abs(expected))))
    worst_row = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
    if not difference[worst_row] <= TOLERANCE:
        raise InvalidEstimatorError(
            f"{where} {worst_row} its ONNX says {scores[worst_row]:.8g} and its estimator {expected[worst_row]:.8g}; "
            f"{int((~(difference <= TOLERANCE)).sum()):,} of {len(scores):,} rows differ. It is not kept. "
            "Try other settings of the estimator, an imputer before it, or another one."
        )
    return float(difference[worst_row])
