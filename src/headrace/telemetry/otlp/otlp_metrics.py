"""The metrics of the catalog in OTLP: gauges, cumulative sums, histograms; times in nanoseconds, as text.

/metrics     le="0.1" 4   le="0.5" 9   le="+Inf" 10      how many were at most so long
OTLP         bounds [0.1, 0.5]   counts [4, 5, 1]        how many were in between
"""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, isinf
from typing import Any, NamedTuple

from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import MetricFamily, MetricType
from headrace.telemetry.values.metrics_scraper import SERVER_UP, MetricSample, MetricSamples

CUMULATIVE_TEMPORALITY = 2
UCUM_UNITS = {"seconds": "s", "bytes": "By", "share": "1", "yes or no": "1"}  # as UCUM writes them
Labels = tuple[tuple[str, str], ...]


class CounterPoint(NamedTuple):
    """A counter as last collected: its start time, the time of collection, and its value."""

    start_ns: int
    at_ns: int
    value: float


class CounterStartTimes:
    """The start time of each counter: when it was first seen, or when it was last reset."""

    def __init__(self) -> None:
        self._previous: dict[tuple[str, Labels], CounterPoint] = {}
        self._current: dict[tuple[str, Labels], CounterPoint] = {}

    def begin_collection(self) -> None:
        """Start a collection: counters that were missing from the last one are dropped."""
        self._previous, self._current = self._current, {}

    def start_ns(self, name: str, labels: Labels, value: float, at_ns: int) -> int:
        """The start time of a counter that has this value now."""
        previous = self._previous.get((name, labels), CounterPoint(at_ns, at_ns, value))
        start_ns = previous.at_ns if value < previous.value else previous.start_ns
        self._current[name, labels] = CounterPoint(start_ns, at_ns, value)
        return start_ns


def to_otlp_metrics(samples: MetricSamples | None, start_times: CounterStartTimes, at_ns: int) -> list[dict[str, Any]]:
    """Every collected metric; of a server that does not answer, only that it is down."""
    start_times.begin_collection()
    all_samples = {**(samples or {}), SERVER_UP.name: [MetricSample({}, float(samples is not None))]}
    return [
        metric
        for family in METRIC_CATALOG.values()
        if (metric := _to_otlp_metric(family, all_samples, start_times, at_ns))
    ]


def _to_otlp_metric(
    family: MetricFamily, samples: MetricSamples, start_times: CounterStartTimes, at_ns: int
) -> dict[str, Any] | None:
    match family.metric_type:
        case MetricType.GAUGE:
            kind, points = "gauge", [_to_data_point(sample, at_ns) for sample in samples.get(family.name, ())]
        case MetricType.COUNTER:
            kind, points = "sum", [*_sum_points(family.name, samples, start_times, at_ns)]
        case MetricType.HISTOGRAM:
            kind, points = "histogram", [*_histogram_points(family.name, samples, start_times, at_ns)]
    if not points:
        return None
    temporality = {} if kind == "gauge" else {"aggregationTemporality": CUMULATIVE_TEMPORALITY}
    monotonicity = {"isMonotonic": True} if kind == "sum" else {}
    description = {"name": family.name, "description": family.help, "unit": _to_ucum_unit(family)}
    return description | {kind: {"dataPoints": points, **temporality, **monotonicity}}


def _to_ucum_unit(family: MetricFamily) -> str:
    return UCUM_UNITS.get(family.unit, f"{{{family.unit}}}")


def _to_data_point(sample: MetricSample, at_ns: int) -> dict[str, Any]:
    return {
        "attributes": to_attributes(sample.labels),
        "timeUnixNano": str(at_ns),
        "asDouble": to_json_number(sample.value),
    }


def _sum_points(
    name: str, samples: MetricSamples, start_times: CounterStartTimes, at_ns: int
) -> Iterator[dict[str, Any]]:
    for sample in samples.get(name, ()):
        start_ns = start_times.start_ns(name, _label_key(sample.labels), sample.value, at_ns)
        yield _to_data_point(sample, at_ns) | {"startTimeUnixNano": str(start_ns)}


def _histogram_points(
    name: str, samples: MetricSamples, start_times: CounterStartTimes, at_ns: int
) -> Iterator[dict[str, Any]]:
    sums = {_label_key(sample.labels): sample.value for sample in samples.get(f"{name}_sum", ())}
    for labels, buckets in _cumulative_buckets(samples.get(f"{name}_bucket", ())).items():
        bounds = sorted(buckets)
        cumulative_counts = [buckets[bound] for bound in bounds]
        bucket_counts = [
            current - previous for current, previous in zip(cumulative_counts, [0.0, *cumulative_counts], strict=False)
        ]
        yield {
            "attributes": to_attributes(dict(labels)),
            "startTimeUnixNano": str(start_times.start_ns(name, labels, cumulative_counts[-1], at_ns)),
            "timeUnixNano": str(at_ns),
            "count": str(int(cumulative_counts[-1])),
            "sum": to_json_number(sums[labels]),
            "bucketCounts": [str(int(count)) for count in bucket_counts],
            "explicitBounds": bounds[:-1],
        }


def _cumulative_buckets(samples: Iterable[MetricSample]) -> dict[Labels, dict[float, float]]:
    """Cumulative counts by labels and bound; the last bound is infinite."""
    buckets: dict[Labels, dict[float, float]] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        buckets.setdefault(_label_key(labels), {})[float(sample.labels["le"])] = sample.value
    return buckets


def _label_key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def to_attributes(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Labels as OTLP attributes."""
    return [{"key": name, "value": {"stringValue": value}} for name, value in labels.items()]


def to_json_number(value: float) -> float | str:
    """A value for JSON, which has no infinity: protobuf's JSON mapping writes such values as text.

    >>> to_json_number(1.5), to_json_number(float("-inf")), to_json_number(float("nan"))
    (1.5, '-Infinity', 'NaN')
    """
    if isfinite(value):
        return value
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"
