"""Metrics read from tiles: one for every metric that can be asked of a model."""

from collections.abc import Callable, Iterator

from headrace.declare.metrics import ESTIMATED, Metric
from headrace.declare.model import Model
from headrace.evaluate.quality import estimated, realised
from headrace.evaluate.quality.curves import Reading
from headrace.evaluate.quality.tile import QualityTile

_AT_THRESHOLD = ("precision", "recall", "f_score", "cost")
_OF_CLASSES: dict[str, Callable[[QualityTile], Reading]] = {
    "auc": realised.auc,
    "average_precision": realised.average_precision,
    "log_loss": realised.log_loss,
    "brier": realised.brier,
    "base_rate": realised.base_rate,
    "ece": realised.ece,
}
_OF_NUMBERS: dict[str, Callable[[QualityTile], Reading]] = {
    "mae": realised.mae,
    "rmse": realised.rmse,
    "bias": realised.bias,
}
_OF_OUTCOMES: dict[str, Callable[[QualityTile], Reading]] = {
    "coverage": realised.coverage,
    "corrections": realised.corrections,
}
_PLAIN = _OF_CLASSES | _OF_NUMBERS | _OF_OUTCOMES
_BY_QUANTILE: dict[str, Callable[[QualityTile, float], Reading]] = {
    "label_delay": realised.label_delay,
    "quantile_loss": realised.quantile_loss,
}
_EXPECTED: dict[str, Callable[[estimated.Expected], Reading]] = {
    "auc": estimated.auc,
    "average_precision": estimated.average_precision,
    "log_loss": estimated.log_loss,
    "brier": estimated.brier,
    "base_rate": estimated.base_rate,
}
_QUANTILES = (0.5, 0.9)


def measure(metric: Metric, model: Model, window: QualityTile, settled: QualityTile) -> Reading:
    """A metric of the merged tiles of its window; estimates are calibrated by those whose horizon has passed."""
    name = metric.name.removeprefix(ESTIMATED)
    if metric.name.startswith(ESTIMATED):
        return _estimated(name, metric, model, window, settled)
    if name in _AT_THRESHOLD:
        return _of_confusion(name, realised.confusion(window, _least(metric, model)), model)
    if name in _BY_QUANTILE and isinstance(metric.at, float):
        return _BY_QUANTILE[name](window, metric.at)
    return _PLAIN[name](window)


def metrics_of(model: Model, window: str) -> Iterator[Metric]:
    """Every metric a model has over a window, estimated ones beside the realised."""
    yield from (getattr(model, name)(window) for name in _OF_OUTCOMES)
    yield from (model.label_delay(window, at=quantile) for quantile in _QUANTILES)
    if model.labels is not None and model.labels.task == "regression":
        yield from (getattr(model, name)(window) for name in _OF_NUMBERS)
        yield from (model.quantile_loss(window, at=quantile) for quantile in _QUANTILES)
        return
    yield from (getattr(model, name)(window) for name in _OF_CLASSES)
    yield from (getattr(model, name)(window, estimated=True) for name in _EXPECTED)
    for at, _ in model.thresholds:
        for name in _AT_THRESHOLD if model.costs else _AT_THRESHOLD[:-1]:
            yield getattr(model, name)(window, at=at)
            yield getattr(model, name)(window, at=at, estimated=True)


def _estimated(name: str, metric: Metric, model: Model, window: QualityTile, settled: QualityTile) -> Reading:
    expectation = estimated.expected(window, settled)
    if name in _EXPECTED:
        return _EXPECTED[name](expectation)
    return _of_confusion(name, estimated.confusion(expectation, window, _least(metric, model)), model)


def _of_confusion(name: str, confusion: realised.Confusion, model: Model) -> Reading:
    if name == "cost" and model.costs is not None:
        return confusion.cost(model.costs)
    reading: Reading = getattr(confusion, name)
    return reading


def _least(metric: Metric, model: Model) -> float:
    """The score a metric's threshold takes."""
    for name, least in model.thresholds:
        if name == metric.at:
            return least
    raise ValueError(f"{metric.text}: the model has no threshold {metric.at!r}. Ask for one of its thresholds.")
