"""Model metrics over a window of predictions whose outcomes are known, or estimates before they are known."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.declare.durations import UNITS_US, duration_text, duration_us
from headrace.declare.models.costs import Costs
from headrace.declare.models.labels import Labels, Task
from headrace.errors import DeclarationError

SegmentValue = str | int | bool | None
Segment = tuple[tuple[str, SegmentValue], ...]

ESTIMATED_PREFIX = "estimated_"
MINUTE_US = UNITS_US["m"]
LONGEST_WINDOW_US = 90 * UNITS_US["d"]


@dataclass(frozen=True)
class Metric:
    """One metric of a model: of the predictions of the last `window_us`, of one segment or of all.

    `at` is the name of a threshold, or a quantile for a metric that takes one.
    """

    model: str
    name: str
    window_us: int
    segment: Segment = ()
    at: str | float | None = None

    @property
    def text(self) -> str:
        """The metric as the user writes it.

        >>> Metric("fraud", "precision", 3_600_000_000, (("country", "FR"),), "block").text
        "fraud.precision('1h', at='block', segment={'country': 'FR'})"
        """
        is_estimated = self.name.startswith(ESTIMATED_PREFIX)
        settings = [
            repr(duration_text(self.window_us)),
            *([] if self.at is None else [f"at={self.at!r}"]),
            *([f"segment={dict(self.segment)!r}"] if self.segment else []),
            *(["estimated=True"] if is_estimated else []),
        ]
        return f"{self.model}.{self.name.removeprefix(ESTIMATED_PREFIX)}({', '.join(settings)})"


@dataclass(frozen=True, init=False)
class ModelMetrics:
    """The metrics of a model, each over a window such as "1h", of all predictions or of one segment.

    `estimated=True` estimates the metric from the scores before labels arrive: for classification only.
    """

    name: str
    thresholds: tuple[tuple[str, float], ...]
    labels: Labels | None
    segments: tuple[str, ...]
    costs: Costs | None

    def precision(
        self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False
    ) -> Metric:
        """Of the predictions that reach a threshold, the share that is positive."""
        return _build_threshold_metric(self, "precision", window, at, segment, estimated)

    def recall(self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False) -> Metric:
        """The share of positives that reach a threshold."""
        return _build_threshold_metric(self, "recall", window, at, segment, estimated)

    def f_score(self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False) -> Metric:
        """The harmonic mean of precision and recall."""
        return _build_threshold_metric(self, "f_score", window, at, segment, estimated)

    def cost(self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False) -> Metric:
        """The mean cost of a prediction, by `costs=`, if predictions that reach the threshold count as positive."""
        if self.costs is None:
            raise DeclarationError(
                f"{self.name}.cost: the model has no costs. "
                'Write costs={"false_positive": 1, "false_negative": 20} in hr.Model.'
            )
        return _build_threshold_metric(self, "cost", window, at, segment, estimated)

    def auc(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The area under the ROC curve, within the error bound of the score histogram."""
        return _build_metric(self, "auc", window, segment, _CLASSIFICATION, estimated=estimated)

    def average_precision(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The area under the precision-recall curve, within the error bound of the score histogram."""
        return _build_metric(self, "average_precision", window, segment, _CLASSIFICATION, estimated=estimated)

    def log_loss(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The mean negative log-likelihood of the outcomes."""
        return _build_metric(self, "log_loss", window, segment, _CLASSIFICATION, estimated=estimated)

    def brier(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The mean squared difference of score and label."""
        return _build_metric(self, "brier", window, segment, _CLASSIFICATION, estimated=estimated)

    def base_rate(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The share of positives."""
        return _build_metric(self, "base_rate", window, segment, _CLASSIFICATION, estimated=estimated)

    def ece(self, window: str, *, segment: object = None) -> Metric:
        """The expected calibration error: the distance of scores from the share of positives, by bins of 0.05."""
        return _build_metric(self, "ece", window, segment, _CLASSIFICATION)

    def mae(self, window: str, *, segment: object = None) -> Metric:
        """The mean absolute error of a regression."""
        return _build_metric(self, "mae", window, segment, _REGRESSION)

    def rmse(self, window: str, *, segment: object = None) -> Metric:
        """The root of the mean squared error of a regression."""
        return _build_metric(self, "rmse", window, segment, _REGRESSION)

    def bias(self, window: str, *, segment: object = None) -> Metric:
        """The mean of score − label of a regression."""
        return _build_metric(self, "bias", window, segment, _REGRESSION)

    def quantile_loss(self, window: str, *, at: float, segment: object = None) -> Metric:
        """The pinball loss of a regression for one quantile."""
        return _build_metric(
            self, "quantile_loss", window, segment, _REGRESSION, at=_validate_quantile(at, self, "quantile_loss")
        )

    def coverage(self, window: str, *, segment: object = None) -> Metric:
        """The share of predictions with a known outcome, from a label or from the default."""
        return _build_metric(self, "coverage", window, segment)

    def corrections(self, window: str, *, segment: object = None) -> Metric:
        """How many outcomes changed after they were counted."""
        return _build_metric(self, "corrections", window, segment)

    def label_delay(self, window: str, *, at: float = 0.5, segment: object = None) -> Metric:
        """A quantile of the seconds from an event to its first label that counted."""
        return _build_metric(self, "label_delay", window, segment, at=_validate_quantile(at, self, "label_delay"))


_CLASSIFICATION: Task = "classification"
_REGRESSION: Task = "regression"
_LABEL_HINTS: dict[Task, str] = {_CLASSIFICATION: "a boolean, or 0 and 1", _REGRESSION: "a double"}


def _build_threshold_metric(
    model: ModelMetrics, name: str, window: str, at: str | None, segment: object, estimated: bool
) -> Metric:
    return _build_metric(
        model, name, window, segment, _CLASSIFICATION, at=_resolve_threshold(model, name, at), estimated=estimated
    )


def _build_metric(
    model: ModelMetrics,
    name: str,
    window: str,
    segment: object,
    task: Task | None = None,
    *,
    at: str | float | None = None,
    estimated: bool = False,
) -> Metric:
    where = f"{model.name}.{name}"
    _require_task(model, task, where)
    full_name = f"{ESTIMATED_PREFIX}{name}" if estimated else name
    return Metric(model.name, full_name, _parse_window_us(window, where), _parse_segment(model, segment, where), at)


def _require_task(model: ModelMetrics, task: Task | None, where: str) -> None:
    if model.labels is None:
        raise DeclarationError(
            f"{where}: the model has no labels. Write labels=hr.Labels(chargebacks, value=…, within=…) in hr.Model."
        )
    if task is not None and model.labels.task != task:
        raise DeclarationError(
            f"{where} is of a {task}, and the label {model.labels.value!r} makes this one a {model.labels.task}. "
            f"Ask for another metric, or declare a label that is {_LABEL_HINTS[task]}."
        )


def _parse_window_us(window: object, where: str) -> int:
    window_us = duration_us(window, f"{where}: window")
    if window_us % MINUTE_US or window_us > LONGEST_WINDOW_US:
        raise DeclarationError(
            f'{where}: window {window!r}. Quality is counted by the minute: write whole minutes, from "1m" to "90d".'
        )
    return window_us


def _resolve_threshold(model: ModelMetrics, name: str, at: object) -> str:
    names = [threshold for threshold, _ in model.thresholds]
    if not names:
        raise DeclarationError(
            f'{model.name}.{name}: the model has no thresholds. Write thresholds={{"block": 0.9}} in hr.Model.'
        )
    if at is None and len(names) == 1:
        return names[0]
    if at not in names:
        raise DeclarationError(
            f"{model.name}.{name}: at={at!r} is not a threshold. Write one of {', '.join(map(repr, names))}."
        )
    return str(at)


def _validate_quantile(at: object, model: ModelMetrics, name: str) -> float:
    if type(at) is not float or not 0 < at < 1:
        raise DeclarationError(f"{model.name}.{name}: at={at!r}. Write a quantile such as at=0.9.")
    return at


def _parse_segment(model: ModelMetrics, segment: object, where: str) -> Segment:
    if segment is None:
        return ()
    if not isinstance(segment, Mapping):
        raise DeclarationError(f'{where}: segment={segment!r}. Write segment={{"country": "FR"}}.')
    for name, value in segment.items():
        if name not in model.segments:
            remedy = f"one of {', '.join(map(repr, model.segments))}" if model.segments else "segments= in hr.Model"
            raise DeclarationError(f"{where}: {name!r} is not a segment of the model. Write {remedy}.")
        if value is not None and type(value) not in {str, int, bool}:
            raise DeclarationError(f"{where}: segment[{name!r}] is {value!r}. Write a text, a whole number or a bool.")
    return tuple(sorted(segment.items()))
