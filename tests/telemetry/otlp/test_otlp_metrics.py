"""The catalogue's metrics in OTLP, decoded with the protocol's own schema."""

import math
from collections.abc import Sequence
from itertools import pairwise

import orjson
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import metrics_core as prometheus
from prometheus_client.registry import Collector

from headrace.declare.metric_catalog import METRIC_CATALOG, REQUEST_SECONDS_BUCKETS
from headrace.declare.metric_family import MetricType
from headrace.online_store.delay_histogram import DelayHistogram
from headrace.server.metrics.prometheus import create_metric
from headrace.telemetry.otlp.otlp_metrics import CounterStartTimes, to_otlp_metrics
from headrace.telemetry.values.metrics_scraper import MetricSamples, parse_samples
from tests.telemetry.otlp_receiver import metrics_in
from tests.telemetry.values.test_metrics_scraper import Server, counted

KINDS = {MetricType.GAUGE: "gauge", MetricType.COUNTER: "sum", MetricType.HISTOGRAM: "histogram"}
texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r"), max_size=12)


class Told(Collector):
    """Families as they are."""

    def __init__(self, families: Sequence[prometheus.Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[prometheus.Metric]:
        return self._families


def told(*families: prometheus.Metric) -> MetricSamples:
    """The samples of /metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told(families))
    return parse_samples(generate_latest(registry).decode())


def read_back(
    samples: MetricSamples | None, growth: CounterStartTimes | None = None, at_ns: int = 5
) -> dict[str, Metric]:
    metrics = to_otlp_metrics(samples, growth or CounterStartTimes(), at_ns)
    return metrics_in(orjson.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}))


def labels_of(point: object) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}  # type: ignore[attr-defined]


def test_every_number_of_the_catalogue_arrives_with_its_kind_unit_help_and_labels() -> None:
    server = Server()
    server.account = counted(2, 1)
    found = read_back(parse_samples(server.text()))
    assert found.keys() == METRIC_CATALOG.keys()
    for name, metric in found.items():
        family = METRIC_CATALOG[name]
        assert metric.WhichOneof("data") == KINDS[family.metric_type]
        assert metric.description == family.help
        points = getattr(metric, KINDS[family.metric_type]).data_points
        assert points
        assert all(labels_of(point).keys() == set(family.labels) for point in points), name
    assert (found["headrace_lag_seconds"].unit, found["headrace_store_bytes"].unit) == ("s", "By")
    assert found["headrace_events_total"].unit == "{records}"


def test_a_server_that_does_not_answer_is_told_and_nothing_else() -> None:
    (up,) = read_back(None).values()
    assert (up.name, up.gauge.data_points[0].as_double) == ("headrace_server_up", 0.0)
    assert read_back({})["headrace_server_up"].gauge.data_points[0].as_double == 1.0


@given(st.dictionaries(texts, st.floats(), min_size=1, max_size=5))
def test_a_level_is_what_it_was_whatever_its_label_is_called(levels: dict[str, float]) -> None:
    found = read_back(told(create_metric("lag", [([name], n) for name, n in levels.items()])))["headrace_lag"]
    read = {labels_of(point)["stream"]: point.as_double for point in found.gauge.data_points}
    assert read.keys() == levels.keys()
    assert all(read[name] == n or (math.isnan(read[name]) and math.isnan(n)) for name, n in levels.items())


@given(st.lists(st.floats(0, 10), max_size=60))
def test_a_histogram_counts_each_delay_in_its_own_bucket(seconds: list[float]) -> None:
    delays = DelayHistogram(REQUEST_SECONDS_BUCKETS)
    for one in seconds:
        delays.add(one)
    found = read_back(told(create_metric("request_seconds", [(["/"], delays)])))["headrace_request_seconds"]
    (point,) = found.histogram.data_points
    assert tuple(point.explicit_bounds) == REQUEST_SECONDS_BUCKETS
    edges = [-1.0, *REQUEST_SECONDS_BUCKETS, math.inf]
    brute = [sum(low < one <= high for one in seconds) for low, high in pairwise(edges)]
    assert [*point.bucket_counts] == brute
    assert point.count == len(seconds)
    assert math.isclose(point.sum, math.fsum(seconds), abs_tol=1e-9)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_a_count_that_is_less_than_before_has_begun_anew_when_it_was_last_told(values: list[int]) -> None:
    growth, began = CounterStartTimes(), 10
    for at, value in enumerate(values):
        at_ns = 10 * (at + 1)
        found = read_back(told(create_metric("duplicates_total", [(["payments"], value)])), growth, at_ns)
        total = found["headrace_duplicates_total"].sum
        assert total.is_monotonic
        assert total.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        began = at_ns - 10 if at and value < values[at - 1] else began
        (point,) = total.data_points
        assert (point.start_time_unix_nano, point.time_unix_nano, point.as_double) == (began, at_ns, value)


def test_a_count_that_was_not_told_for_a_while_begins_anew() -> None:
    growth, samples = CounterStartTimes(), told(create_metric("duplicates_total", [(["payments"], 3)]))
    for at_ns, told_now in ((10, samples), (20, None), (30, samples)):
        found = read_back(told_now, growth, at_ns)
    assert found["headrace_duplicates_total"].sum.data_points[0].start_time_unix_nano == 30
