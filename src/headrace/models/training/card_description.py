"""Describes a training in a model card: definitions, windows, counts, and the distribution of each input."""

import hashlib
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.features.view import View
from headrace.declare.models.model import Model
from headrace.declare.streams.schema import Column
from headrace.models.training.estimator_fit import FittedModel
from headrace.models.training.examples import TrainingExamples, TrainTestSplit, format_time
from headrace.models.versions.model_card import ModelCard
from headrace.models.versions.reference_distribution import describe_references

LIBRARIES = ("headrace", "onnxruntime", "onnx", "skl2onnx", "onnxmltools", "scikit-learn", "lightgbm", "xgboost-cpu")


def build_card(
    model: Model, examples: TrainingExamples, split: TrainTestSplit, fitted_model: FittedModel, as_of: str
) -> ModelCard:
    """The card of a trained model, also by segment; the version is set when it is stored."""
    rows = {name: examples.frame[name].to_numpy()[split.train] for name in examples.frame.columns}
    inputs = {column.name: rows[column.name] for column in fitted_model.columns}
    return ModelCard(
        model=model.name,
        version="",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        kind=fitted_model.kind,
        estimator=fitted_model.estimator,
        sha256=hashlib.sha256(fitted_model.content).hexdigest(),
        features=[
            _describe_feature(model, input_column) | _describe_importance(fitted_model, input_column)
            for input_column in fitted_model.columns
        ],
        label=model.label,
        as_of=as_of,
        window={"train": _time_range(examples, split.train), "test": _time_range(examples, split.test)},
        rows=_row_counts(model, examples, split),
        data_sha256=examples.data_sha256,
        thresholds=dict(model.thresholds),
        metrics=fitted_model.metrics,
        largest_difference=fitted_model.largest_difference,
        reference=describe_references(
            {**inputs, "score": fitted_model.scores[split.train]},
            {name: values[split.train] for name, values in examples.segments.items()},
        ),
        libraries={name: version(name) for name in LIBRARIES},
    )


def _describe_feature(model: Model, column: Column) -> dict[str, Any]:
    """A column with its source, and a hash that changes with its definition."""
    for view in model.views:
        outputs: dict[str, object] = {feature.name: feature for feature in view.features} | {
            one.name: one for one in view.on_demand_features
        }
        if column.name in outputs:
            definition = _definition_hash(repr((outputs[column.name], view.by)), view)
            return {"name": column.name, "type": column.type, "of": view.name, "definition": definition}
    return {
        "name": column.name,
        "type": column.type,
        "of": model.stream.name,
        "definition": _definition_hash(repr(column)),
    }


def _describe_importance(fitted_model: FittedModel, column: Column) -> dict[str, float]:
    """The importance of a column, where the estimator provides it."""
    return {} if fitted_model.importance is None else {"importance": fitted_model.importance[column.name]}


def _definition_hash(text: str, view: View | None = None) -> str:
    """The hash of a definition; a lookup table counts by its file's name, wherever the app is."""
    for lookup in () if view is None else view.lookups:
        text = text.replace(lookup.table.identity, lookup.table.label)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _time_range(examples: TrainingExamples, rows: NDArray[np.bool_]) -> dict[str, str]:
    times_us = examples.times_us[rows]
    return {"from": format_time(times_us.min()), "to": format_time(times_us.max())}


def _row_counts(model: Model, examples: TrainingExamples, split: TrainTestSplit) -> dict[str, int]:
    total, train, test = len(examples.frame), int(split.train.sum()), int(split.test.sum())
    return {
        "train": train,
        "embargo": total - train - test,
        "test": test,
        "unlabelled": examples.unlabelled,
        "train_label_above_zero": int((examples.frame[model.label].to_numpy()[split.train] > 0).sum()),
    }
