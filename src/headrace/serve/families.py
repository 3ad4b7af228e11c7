"""Numbers of the catalogue in Prometheus' words: what is not in it cannot be told."""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from headrace.declare.catalogue import BASE_UNITS, CATALOGUE, Sort
from headrace.store.delays import Delays

KINDS: dict[Sort, Callable[..., Any]] = {
    Sort.LEVEL: GaugeMetricFamily,
    Sort.COUNT: CounterMetricFamily,
    Sort.DELAYS: HistogramMetricFamily,
}


def tell(name: str, samples: Iterable[tuple[list[str], float | Delays]]) -> Metric:
    """Samples of one number: the values of its labels, in their order, and its own."""
    family = CATALOGUE[f"headrace_{name}"]
    unit = family.unit if family.unit in BASE_UNITS else ""
    told: Metric = KINDS[family.sort](family.name, family.help, labels=family.labels, unit=unit)
    for labels, value in samples:
        told.add_metric(labels, *_written(value))  # type: ignore[attr-defined]  # each kind has its own
    return told


def _written(value: float | Delays) -> tuple[Any, ...]:
    if not isinstance(value, Delays):
        return (value,)
    buckets = [("+Inf" if bound == float("inf") else str(float(bound)), float(n)) for bound, n in value.at_most()]
    return buckets, value.total_seconds
