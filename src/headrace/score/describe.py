"""What a model card says of a training: definitions, windows, counts, and what each input looked like."""

import hashlib
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.declare.model import Model
from headrace.declare.schema import Column
from headrace.declare.views import View
from headrace.score.card import Card
from headrace.score.examples import Examples, Split, moment
from headrace.score.fit import Fitted
from headrace.score.reference import described

LIBRARIES = ("headrace", "onnxruntime", "onnx", "skl2onnx", "onnxmltools", "scikit-learn", "lightgbm", "xgboost-cpu")


def card_of(model: Model, examples: Examples, split: Split, fitted: Fitted, as_of: str) -> Card:
    """The card of a trained model, also by its segments; its version is given where it is kept."""
    rows = {name: examples.frame[name].to_numpy()[split.train] for name in examples.frame.columns}
    inputs = {column.name: rows[column.name] for column in fitted.columns}
    return Card(
        model=model.name,
        version="",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        kind=fitted.kind,
        estimator=fitted.estimator,
        sha256=hashlib.sha256(fitted.content).hexdigest(),
        features=[_feature(model, one) | _importance(fitted, one) for one in fitted.columns],
        label=model.label,
        as_of=as_of,
        window={"train": _span(examples, split.train), "test": _span(examples, split.test)},
        rows=_counts(model, examples, split),
        data_sha256=examples.data_sha256,
        thresholds=dict(model.thresholds),
        metrics=fitted.metrics,
        largest_difference=fitted.largest_difference,
        reference=described(
            {**inputs, "score": fitted.scores[split.train]},
            {name: values[split.train] for name, values in examples.segments.items()},
        ),
        libraries={name: version(name) for name in LIBRARIES},
    )


def _feature(model: Model, column: Column) -> dict[str, Any]:
    """A column with where it comes from, and a hash that changes with its definition."""
    for view in model.views:
        outputs: dict[str, object] = {one.name: one for one in view.features} | {one.name: one for one in view.derived}
        if column.name in outputs:
            definition = _hashed(repr((outputs[column.name], view.by)), view)
            return {"name": column.name, "type": column.type, "of": view.name, "definition": definition}
    return {"name": column.name, "type": column.type, "of": model.stream.name, "definition": _hashed(repr(column))}


def _importance(fitted: Fitted, column: Column) -> dict[str, float]:
    """How much a column matters to the estimator, where it says so."""
    return {} if fitted.importance is None else {"importance": fitted.importance[column.name]}


def _hashed(text: str, view: View | None = None) -> str:
    """The hash of a definition; a table in it is known by its file's name, wherever the app lies."""
    for one in () if view is None else view.joined:
        text = text.replace(one.table.place, one.table.label)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _span(examples: Examples, rows: NDArray[np.bool_]) -> dict[str, str]:
    times_us = examples.times_us[rows]
    return {"from": moment(times_us.min()), "to": moment(times_us.max())}


def _counts(model: Model, examples: Examples, split: Split) -> dict[str, int]:
    total, train, test = len(examples.frame), int(split.train.sum()), int(split.test.sum())
    return {
        "train": train,
        "embargo": total - train - test,
        "test": test,
        "unlabelled": examples.unlabelled,
        "train_label_above_zero": int((examples.frame[model.label].to_numpy()[split.train] > 0).sum()),
    }
