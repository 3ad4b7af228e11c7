"""Metrics: how good a model is, over a window of predictions whose outcomes are known, or before they are."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.declare.costs import Costs
from headrace.declare.durations import UNITS_US, duration_text, duration_us
from headrace.declare.labels import Labels, Task
from headrace.errors import DeclarationError

SegmentValue = str | int | bool | None
Segment = tuple[tuple[str, SegmentValue], ...]

ESTIMATED = "estimated_"
MINUTE_US = UNITS_US["m"]
LONGEST_WINDOW_US = 90 * UNITS_US["d"]


@dataclass(frozen=True)
class Metric:
    """One number about a model: of the predictions of the last `window_us`, of one segment or of all.

    `at` is the name of a threshold, or a quantile where the metric has one.
    """

    model: str
    name: str
    window_us: int
    segment: Segment = ()
    at: str | float | None = None

    @property
    def text(self) -> str:
        """As it is written.

        >>> Metric("fraud", "precision", 3_600_000_000, (("country", "FR"),), "block").text
        "fraud.precision('1h', at='block', segment={'country': 'FR'})"
        """
        estimated = self.name.startswith(ESTIMATED)
        settings = [
            repr(duration_text(self.window_us)),
            *([] if self.at is None else [f"at={self.at!r}"]),
            *([f"segment={dict(self.segment)!r}"] if self.segment else []),
            *(["estimated=True"] if estimated else []),
        ]
        return f"{self.model}.{self.name.removeprefix(ESTIMATED)}({', '.join(settings)})"


@dataclass(frozen=True, init=False)
class Measured:
    """What can be asked of a model, each over a window such as "1h", of all predictions or of one segment.

    `estimated=True` is what its scores promise before labels come: of classifications alone.
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
        return _at_threshold(self, "precision", window, at, segment, estimated)

    def recall(self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False) -> Metric:
        """Of the positives, the share that reaches a threshold."""
        return _at_threshold(self, "recall", window, at, segment, estimated)

    def f_score(self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False) -> Metric:
        """The harmonic mean of precision and recall."""
        return _at_threshold(self, "f_score", window, at, segment, estimated)

    def cost(self, window: str, *, at: str | None = None, segment: object = None, estimated: bool = False) -> Metric:
        """What a prediction costs on average, by `costs=`, if what reaches the threshold is taken for positive."""
        if self.costs is None:
            raise DeclarationError(
                f"{self.name}.cost: the model has no costs. "
                'Write costs={"false_positive": 1, "false_negative": 20} in hr.Model.'
            )
        return _at_threshold(self, "cost", window, at, segment, estimated)

    def auc(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The area under the ROC curve, within the error the histogram of scores states."""
        return _metric(self, "auc", window, segment, _CLASSES, estimated=estimated)

    def average_precision(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The area under the precision-recall curve, within the error the histogram of scores states."""
        return _metric(self, "average_precision", window, segment, _CLASSES, estimated=estimated)

    def log_loss(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The mean of −log of the probability given to what happened."""
        return _metric(self, "log_loss", window, segment, _CLASSES, estimated=estimated)

    def brier(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The mean of the squared distance from score to label."""
        return _metric(self, "brier", window, segment, _CLASSES, estimated=estimated)

    def base_rate(self, window: str, *, segment: object = None, estimated: bool = False) -> Metric:
        """The share of positives."""
        return _metric(self, "base_rate", window, segment, _CLASSES, estimated=estimated)

    def ece(self, window: str, *, segment: object = None) -> Metric:
        """The expected calibration error: how far scores are from the share of positives, bin by bin of 0.05."""
        return _metric(self, "ece", window, segment, _CLASSES)

    def mae(self, window: str, *, segment: object = None) -> Metric:
        """The mean absolute error of a regression."""
        return _metric(self, "mae", window, segment, _NUMBERS)

    def rmse(self, window: str, *, segment: object = None) -> Metric:
        """The root of the mean squared error of a regression."""
        return _metric(self, "rmse", window, segment, _NUMBERS)

    def bias(self, window: str, *, segment: object = None) -> Metric:
        """The mean of score − label of a regression."""
        return _metric(self, "bias", window, segment, _NUMBERS)

    def quantile_loss(self, window: str, *, at: float, segment: object = None) -> Metric:
        """The pinball loss of a regression for one quantile."""
        return _metric(self, "quantile_loss", window, segment, _NUMBERS, at=_quantile(at, self, "quantile_loss"))

    def coverage(self, window: str, *, segment: object = None) -> Metric:
        """The share of predictions whose outcome is known, by a label or by the default."""
        return _metric(self, "coverage", window, segment)

    def corrections(self, window: str, *, segment: object = None) -> Metric:
        """How many outcomes changed after they had counted."""
        return _metric(self, "corrections", window, segment)

    def label_delay(self, window: str, *, at: float = 0.5, segment: object = None) -> Metric:
        """A quantile of the seconds from an event to its first label that counted."""
        return _metric(self, "label_delay", window, segment, at=_quantile(at, self, "label_delay"))


_CLASSES: Task = "classification"
_NUMBERS: Task = "regression"
_LABEL_OF: dict[Task, str] = {_CLASSES: "a boolean, or 0 and 1", _NUMBERS: "a double"}


def _at_threshold(model: Measured, name: str, window: str, at: str | None, segment: object, estimated: bool) -> Metric:
    return _metric(model, name, window, segment, _CLASSES, at=_threshold(model, name, at), estimated=estimated)


def _metric(
    model: Measured,
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
    whole_name = f"{ESTIMATED}{name}" if estimated else name
    return Metric(model.name, whole_name, _window_us(window, where), _segment(model, segment, where), at)


def _require_task(model: Measured, task: Task | None, where: str) -> None:
    if model.labels is None:
        raise DeclarationError(
            f"{where}: the model has no labels. Write labels=hr.Labels(chargebacks, value=…, within=…) in hr.Model."
        )
    if task is not None and model.labels.task != task:
        raise DeclarationError(
            f"{where} is of a {task}, and the label {model.labels.value!r} makes this one a {model.labels.task}. "
            f"Ask for another metric, or declare a label that is {_LABEL_OF[task]}."
        )


def _window_us(window: object, where: str) -> int:
    window_us = duration_us(window, f"{where}: window")
    if window_us % MINUTE_US or window_us > LONGEST_WINDOW_US:
        raise DeclarationError(
            f'{where}: window {window!r}. Quality is counted by the minute: write whole minutes, from "1m" to "90d".'
        )
    return window_us


def _threshold(model: Measured, name: str, at: object) -> str:
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


def _quantile(at: object, model: Measured, name: str) -> float:
    if type(at) is not float or not 0 < at < 1:
        raise DeclarationError(f"{model.name}.{name}: at={at!r}. Write a quantile such as at=0.9.")
    return at


def _segment(model: Measured, segment: object, where: str) -> Segment:
    if segment is None:
        return ()
    if not isinstance(segment, Mapping):
        raise DeclarationError(f'{where}: segment={segment!r}. Write segment={{"country": "FR"}}.')
    for name, value in segment.items():
        if name not in model.segments:
            declared = f"one of {', '.join(map(repr, model.segments))}" if model.segments else "segments= in hr.Model"
            raise DeclarationError(f"{where}: {name!r} is not a segment of the model. Write {declared}.")
        if value is not None and type(value) not in {str, int, bool}:
            raise DeclarationError(f"{where}: segment[{name!r}] is {value!r}. Write a text, a whole number or a bool.")
    return tuple(sorted(segment.items()))
