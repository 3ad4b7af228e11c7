"""Models: the scores of a stream's events and of requests about one event."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.declare.app_paths import resolve_app_path
from headrace.declare.durations import UNITS_US, duration_text, duration_us
from headrace.declare.features.operands import REQUEST_PREFIX
from headrace.declare.features.view import View, require_view
from headrace.declare.models.costs import parse_costs
from headrace.declare.models.drift import Drift
from headrace.declare.models.labels import Labels
from headrace.declare.models.metrics import ModelMetrics
from headrace.declare.models.retraining import Retrain
from headrace.declare.names import require_distinct_columns, topic_name
from headrace.declare.notebook_repr import render_html
from headrace.declare.source_location import SourceLocation, locate_declaration
from headrace.declare.streams.schema import TYPE_OF_KIND, Column, Kind, Schema
from headrace.declare.streams.stream import Stream
from headrace.errors import DeclarationError

TrainFunction = Callable[[Any], Any]
LearnerFactory = Callable[[], Any]

DEFAULT_LABEL_COLUMN = "label"
MAX_SEGMENTS = 4
LONGEST_BUDGET_US = 60 * UNITS_US["s"]
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, init=False)
class Model(ModelMetrics):
    """A model that scores a stream's events: its features and fields, where it comes from, and its time budget.

    `inputs` names the columns of a vector in their order; by default every scalar output of the views, then the fields.
    """

    stream: Stream
    views: tuple[View, ...]
    fields: tuple[str, ...]
    inputs: tuple[str, ...] | None
    file: Path | None
    train: TrainFunction | None
    learn: LearnerFactory | None
    budget_us: int
    retrain: Retrain | None
    drift: Drift
    location: SourceLocation = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        *,
        on: Stream,
        features: Sequence[View | type],
        fields: Sequence[str] = (),
        inputs: Sequence[str] | None = None,
        file: str | None = None,
        train: TrainFunction | None = None,
        learn: LearnerFactory | None = None,
        budget: str = "50ms",
        thresholds: Mapping[str, float] | None = None,
        labels: Labels | None = None,
        segments: Sequence[str] = (),
        costs: Mapping[str, float] | None = None,
        retrain: Retrain | None = None,
        drift: Drift | None = None,
    ) -> None:
        where = _require_valid_name(name)
        if not isinstance(on, Stream):
            raise DeclarationError(f"{where}: on={on!r} is not a stream. Write on=payments with an hr.Stream.")
        values = {
            "name": name,
            "stream": on,
            "views": _validate_views(features, on, where),
            "fields": _validate_names(fields, "fields", where),
            "inputs": None if inputs is None else _validate_names(inputs, "inputs", where),
            "file": _resolve_file(file, train, where, is_needed=learn is None),
            "train": train,
            "learn": learn,
            "budget_us": _parse_budget_us(budget, where),
            "thresholds": _parse_thresholds(thresholds or {}, where),
            "labels": labels,
            "segments": _validate_names(segments, "segments", where),
            "costs": parse_costs(costs, where),
            "retrain": retrain,
            "drift": _validate_drift(drift, where),
            "location": locate_declaration(),
        }
        for setting, value in values.items():
            object.__setattr__(self, setting, value)
        _require_labels(self, where)
        _require_columns(self, where)
        _require_segments(self, where)
        _require_costs(self, where)
        _require_retrain(self, where)
        _require_learn(self, where)

    def _repr_html_(self) -> str:
        summary = f"a model of {self.stream.name}, in {duration_text(self.budget_us)}"
        view_names = {column.name: view.name for view in self.views for column in view.expression_inputs}
        rows = [(one.name, one.type, view_names.get(one.name, self.stream.name)) for one in self.vector]
        return render_html(self.name, summary, ("column", "type", "from"), rows)

    @property
    def learns_alone(self) -> bool:
        """Whether the online model is the only one: it is the champion then, and a challenger otherwise."""
        return self.learn is not None and self.file is None and self.train is None

    @property
    def predictions(self) -> str:
        """The topic of its predictions."""
        return topic_name(self.name, "predictions")

    @property
    def quality(self) -> str:
        """The topic of its quality tiles."""
        return topic_name(self.name, "quality")

    @property
    def clock(self) -> str:
        """The topic of its watermark: the time up to which all its predictions and labels have been read."""
        return topic_name(self.name, "clock")

    @property
    def lessons(self) -> str:
        """The topic of its online training data: served vectors with their outcomes."""
        return topic_name(self.name, "lessons")

    @property
    def label(self) -> str:
        """The column of a spine that holds the label."""
        return DEFAULT_LABEL_COLUMN if self.labels is None else self.labels.value

    @property
    def known(self) -> Schema:
        """Every column a vector can have: scalar outputs of its views except times, and its fields."""
        field_columns = (self.stream.schema.column(name, self.name) for name in self.fields)
        return Schema((*(column for view in self.views for column in _scalar_columns(view)), *field_columns))

    @property
    def vector(self) -> Schema:
        """The columns of a vector, in order."""
        available = self.known
        return (
            available
            if self.inputs is None
            else Schema(tuple(available.column(name, self.name) for name in self.inputs))
        )

    def decision(self, score: float) -> str | None:
        """The highest threshold a score reaches."""
        reached = [name for name, threshold in self.thresholds if score >= threshold]
        return reached[-1] if reached else None


def _require_valid_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME_PATTERN.fullmatch(name):
        raise DeclarationError(
            f"Model {name!r}: a model names a topic and a folder. "
            "Rename it with 1 to 100 letters, digits, underscores and hyphens."
        )
    return f"Model {name!r}"


def _validate_views(features: object, on: Stream, where: str) -> tuple[View, ...]:
    if not isinstance(features, list | tuple) or not features:
        raise DeclarationError(f"{where}: features={features!r}. Write a list of views: features=[CardSpend].")
    views = tuple(map(require_view, features))
    for view in views:
        if views.count(view) > 1:
            raise DeclarationError(f"{where}: {view.name} is in features= twice. Write it once.")
        request_columns = [
            Column(column.name.removeprefix(REQUEST_PREFIX), column.type) for column in view.request_columns
        ]
        for column in (*view.entity, *request_columns):
            _require_event_column(column, view, on, where)
    return views


def _require_event_column(column: Column, view: View, on: Stream, where: str) -> None:
    """A view is looked up by columns of the event: its entity, and the request fields of its on-demand features."""
    if column.name not in on.schema:
        raise DeclarationError(
            f"{where}: {view.name} needs {column.name!r}, and an event of {on.name!r} has no such column: "
            f"{', '.join(on.schema.names)}. Add it to the stream, or leave the view out."
        )
    found_kind = on.schema.column(column.name, where).kind
    if found_kind is not column.kind:
        raise DeclarationError(
            f"{where}: {view.name} needs {column.name!r} as {column.kind.value}, and in {on.name!r} it is "
            f"{found_kind.value}. Declare both alike."
        )


def _validate_names(names: object, setting: str, where: str) -> tuple[str, ...]:
    if not isinstance(names, list | tuple) or any(not isinstance(name, str) for name in names):
        raise DeclarationError(f'{where}: {setting}={names!r}. Write a list of names: {setting}=["amount"].')
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"{where}: {setting}= has {name!r} twice. Write it once.")
    return tuple(names)


def _resolve_file(file: object, train: object, where: str, is_needed: bool) -> Path | None:
    if (file is None) == (train is None) and (is_needed or file is not None):
        problem = "neither file= nor train=" if file is None else "both file= and train="
        raise DeclarationError(
            f'{where}: {problem}. Write file="fraud.onnx" for a model you have, or train=fit for one to be trained; '
            "learn=online for one that is updated by each outcome."
        )
    if file is None:
        if train is not None and not callable(train):
            raise DeclarationError(
                f"{where}: train={train!r} is not a function. Write def fit(frame) that returns an estimator."
            )
        return None
    if not isinstance(file, str) or not file.endswith(".onnx"):
        raise DeclarationError(
            f"{where}: file={file!r} is not ONNX. Export the model to a file that ends in .onnx: "
            "nothing is ever unpickled."
        )
    return resolve_app_path(file)


def _parse_budget_us(budget: object, where: str) -> int:
    budget_us = duration_us(budget, f"{where}: budget")
    if budget_us > LONGEST_BUDGET_US:
        raise DeclarationError(f"{where}: budget={budget!r} is out of range. Write a duration from 1ms to 60s.")
    return budget_us


def _parse_thresholds(thresholds: object, where: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(thresholds, Mapping):
        raise DeclarationError(f'{where}: thresholds={thresholds!r}. Write thresholds={{"review": 0.5, "block": 0.9}}.')
    for name, threshold in thresholds.items():
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"{where}: thresholds= has {name!r}. Name the decision, such as 'block'.")
        if type(threshold) not in {int, float} or not math.isfinite(threshold):
            raise DeclarationError(f"{where}: thresholds[{name!r}] is {threshold!r}. Write the least score it takes.")
        if list(thresholds.values()).count(threshold) > 1:
            raise DeclarationError(f"{where}: two thresholds are {threshold!r}. Which decision is meant? Change one.")
    return tuple(
        (name, float(threshold)) for name, threshold in sorted(thresholds.items(), key=lambda item: float(item[1]))
    )


def _require_columns(model: Model, where: str) -> None:
    for name in model.fields:
        if model.stream.schema.column(name, f"{where}: fields").kind is Kind.TIMESTAMP:
            raise DeclarationError(f"{where}: fields= has {name!r}, a timestamp. A model reads numbers and texts.")
    names = [*(name for view in model.views for name in view.names), *model.fields]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                f"{where}: two of its columns are named {name!r}. Rename the attribute of one view, or leave one out."
            )
    require_distinct_columns(names, where)
    available = model.known
    for name in model.inputs or ():
        if name not in available:
            raise DeclarationError(
                f"{where}: inputs= has {name!r}, {_explain_unavailable(name, names)}. {_describe_available(available)}"
            )
    if not model.vector.names:
        raise DeclarationError(f"{where}: no inputs. {_describe_available(available)}")
    if model.label in model.vector:
        raise DeclarationError(
            f"{where}: {model.label!r} is its label and one of its inputs: the label would leak. Leave it out."
        )


def _explain_unavailable(name: str, names: Sequence[str]) -> str:
    if name in names:
        return "a list, a map or a time, and a model reads single numbers, texts and booleans"
    return "and there is no such feature or field"


def _describe_available(available: Schema) -> str:
    return (
        f"It can read {', '.join(available.names)}."
        if available.names
        else "Its views have no number, text or boolean."
    )


def _require_labels(model: Model, where: str) -> None:
    labels, id_column = model.labels, model.stream.schema.column(model.stream.id, where)
    if labels is None:
        return
    if not isinstance(labels, Labels):
        raise DeclarationError(
            f"{where}: labels={labels!r}. Write labels=hr.Labels(chargebacks, value=…, within=…) or leave it out."
        )
    joined_column = labels.stream.schema.column(
        id_column.name, f"{where}: labels from {labels.stream.name!r} by the event's id"
    )
    if joined_column.kind is not id_column.kind:
        raise DeclarationError(
            f"{where}: {id_column.name!r} is {id_column.kind.value} in {model.stream.name!r} and "
            f"{joined_column.kind.value} in "
            f"{labels.stream.name!r}. Declare both alike: labels are joined by it."
        )


def _require_segments(model: Model, where: str) -> None:
    """A segment is read from the logged prediction; each of its values has tiles of its own."""
    if len(model.segments) > MAX_SEGMENTS:
        raise DeclarationError(f"{where}: {len(model.segments)} segments. Write at most {MAX_SEGMENTS}.")
    for name in model.segments:
        if model.known.column(name, f"{where}: segments").kind is Kind.DOUBLE:
            raise DeclarationError(
                f"{where}: segments= has {name!r}, a double. A segment has few values: "
                "write a text, a boolean or a whole number."
            )


def _require_costs(model: Model, where: str) -> None:
    if model.costs is None:
        return
    if model.labels is None or model.labels.task != "classification":
        raise DeclarationError(f"{where}: costs= are of true and false. Write labels= of booleans, or of 0 and 1, too.")
    if not model.thresholds:
        raise DeclarationError(f'{where}: costs= are counted at a threshold. Write thresholds={{"block": 0.9}} too.')


def _require_retrain(model: Model, where: str) -> None:
    if model.retrain is None:
        return
    if not isinstance(model.retrain, Retrain):
        raise DeclarationError(f'{where}: retrain={model.retrain!r}. Write retrain=hr.Retrain(every="7d").')
    if model.labels is None or model.train is None:
        raise DeclarationError(f"{where}: retrain= needs train= and labels= to train on. Add them, or leave it out.")


def _validate_drift(drift: object, where: str) -> Drift:
    if drift is not None and not isinstance(drift, Drift):
        raise DeclarationError(f'{where}: drift={drift!r}. Write drift=hr.Drift(window="1d") or leave it out.')
    return drift or Drift()


def _require_learn(model: Model, where: str) -> None:
    if model.learn is None:
        return
    if not callable(model.learn):
        raise DeclarationError(
            f"{where}: learn={model.learn!r} is not a function. Write def online() that returns a new River model."
        )
    if model.labels is None:
        raise DeclarationError(f"{where}: learn= needs labels= to learn from. Write labels=hr.Labels(…) too.")


def _scalar_columns(view: View) -> list[Column]:
    feature_names = {feature.name for feature in view.features}
    columns = [
        *(column for column in view.expression_inputs if column.name in feature_names),
        *(
            Column(on_demand_feature.name, TYPE_OF_KIND[on_demand_feature.kind])
            for on_demand_feature in view.on_demand_features
        ),
    ]
    return [column for column in columns if column.kind is not Kind.TIMESTAMP]
