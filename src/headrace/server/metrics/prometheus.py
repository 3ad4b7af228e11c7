"""Metrics of the catalog in Prometheus' format: a metric that is not in the catalog cannot be exported."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import BASE_UNITS, MetricType
from headrace.online_store.delay_histogram import DelayHistogram

LabelledValue = tuple[list[str], float]
FAMILY_CLASSES: dict[MetricType, Callable[..., Any]] = {
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.HISTOGRAM: HistogramMetricFamily,
}


def create_metric(name: str, samples: Iterable[tuple[list[str], float | DelayHistogram]]) -> Metric:
    """The samples of one metric: the values of its labels, in their order, and its own."""
    family = METRIC_CATALOG[f"headrace_{name}"]
    unit = family.unit if family.unit in BASE_UNITS else ""
    metric: Metric = FAMILY_CLASSES[family.metric_type](family.name, family.help, labels=family.labels, unit=unit)
    for labels, value in samples:
        metric.add_metric(labels, *_metric_arguments(value))  # type: ignore[attr-defined]  # each kind has its own
    return metric


def _metric_arguments(value: float | DelayHistogram) -> tuple[Any, ...]:
    if not isinstance(value, DelayHistogram):
        return (value,)
    buckets = [
        ("+Inf" if bound == float("inf") else str(float(bound)), float(n)) for bound, n in value.cumulative_counts()
    ]
    return buckets, value.total_seconds


def to_samples(counts: Counter[tuple[str, ...]]) -> list[LabelledValue]:
    """Samples of counts by the values of their labels."""
    return [(list(labels), float(count)) for labels, count in counts.items()]
