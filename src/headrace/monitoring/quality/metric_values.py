"""Computes every metric of a model from tiles."""

from collections.abc import Callable, Iterator

from headrace.declare.models.metrics import ESTIMATED_PREFIX, Metric
from headrace.declare.models.model import Model
from headrace.monitoring.quality import estimated_quality, realized_quality
from headrace.monitoring.quality.curves import QualityMetricValue
from headrace.monitoring.quality.quality_tile import QualityTile

_THRESHOLD_METRICS = ("precision", "recall", "f_score", "cost")
_CLASSIFICATION_METRICS: dict[str, Callable[[QualityTile], QualityMetricValue]] = {
    "auc": realized_quality.auc,
    "average_precision": realized_quality.average_precision,
    "log_loss": realized_quality.log_loss,
    "brier": realized_quality.brier,
    "base_rate": realized_quality.base_rate,
    "ece": realized_quality.ece,
}
_REGRESSION_METRICS: dict[str, Callable[[QualityTile], QualityMetricValue]] = {
    "mae": realized_quality.mae,
    "rmse": realized_quality.rmse,
    "bias": realized_quality.bias,
}
_OUTCOME_METRICS: dict[str, Callable[[QualityTile], QualityMetricValue]] = {
    "coverage": realized_quality.coverage,
    "corrections": realized_quality.corrections,
}
_SIMPLE_METRICS = _CLASSIFICATION_METRICS | _REGRESSION_METRICS | _OUTCOME_METRICS
_QUANTILE_METRICS: dict[str, Callable[[QualityTile, float], QualityMetricValue]] = {
    "label_delay": realized_quality.label_delay,
    "quantile_loss": realized_quality.quantile_loss,
}
_ESTIMATED_METRICS: dict[str, Callable[[estimated_quality.ExpectedOutcomes], QualityMetricValue]] = {
    "auc": estimated_quality.auc,
    "average_precision": estimated_quality.average_precision,
    "log_loss": estimated_quality.log_loss,
    "brier": estimated_quality.brier,
    "base_rate": estimated_quality.base_rate,
}
_QUANTILES = (0.5, 0.9)


def compute_metric(metric: Metric, model: Model, window: QualityTile, settled: QualityTile) -> QualityMetricValue:
    """A metric of the merged tiles of its window; estimates are calibrated by tiles whose horizon has passed."""
    name = metric.name.removeprefix(ESTIMATED_PREFIX)
    if metric.name.startswith(ESTIMATED_PREFIX):
        return _compute_estimated(name, metric, model, window, settled)
    if name in _THRESHOLD_METRICS:
        return _compute_from_confusion(name, realized_quality.confusion(window, _threshold_score(metric, model)), model)
    if name in _QUANTILE_METRICS and isinstance(metric.at, float):
        return _QUANTILE_METRICS[name](window, metric.at)
    return _SIMPLE_METRICS[name](window)


def model_metrics(model: Model, window: str) -> Iterator[Metric]:
    """Every metric of a model over a window, estimated and realised."""
    yield from (getattr(model, name)(window) for name in _OUTCOME_METRICS)
    yield from (model.label_delay(window, at=quantile) for quantile in _QUANTILES)
    if model.labels is not None and model.labels.task == "regression":
        yield from (getattr(model, name)(window) for name in _REGRESSION_METRICS)
        yield from (model.quantile_loss(window, at=quantile) for quantile in _QUANTILES)
        return
    yield from (getattr(model, name)(window) for name in _CLASSIFICATION_METRICS)
    yield from (getattr(model, name)(window, estimated=True) for name in _ESTIMATED_METRICS)
    for at, _ in model.thresholds:
        for name in _THRESHOLD_METRICS if model.costs else _THRESHOLD_METRICS[:-1]:
            yield getattr(model, name)(window, at=at)
            yield getattr(model, name)(window, at=at, estimated=True)


def _compute_estimated(
    name: str, metric: Metric, model: Model, window: QualityTile, settled: QualityTile
) -> QualityMetricValue:
    outcomes = estimated_quality.expected_outcomes(window, settled)
    if name in _ESTIMATED_METRICS:
        return _ESTIMATED_METRICS[name](outcomes)
    return _compute_from_confusion(
        name, estimated_quality.confusion(outcomes, window, _threshold_score(metric, model)), model
    )


def _compute_from_confusion(name: str, confusion: realized_quality.ConfusionMatrix, model: Model) -> QualityMetricValue:
    if name == "cost" and model.costs is not None:
        return confusion.cost(model.costs)
    metric_value: QualityMetricValue = getattr(confusion, name)
    return metric_value


def _threshold_score(metric: Metric, model: Model) -> float:
    """The score at a metric's threshold."""
    for name, threshold in model.thresholds:
        if name == metric.at:
            return threshold
    raise ValueError(f"{metric.text}: the model has no threshold {metric.at!r}. Ask for one of its thresholds.")
