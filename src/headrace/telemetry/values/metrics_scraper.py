"""Reads values from a server's /metrics, and derives rates and shares over time."""

import logging
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import NamedTuple
from urllib.error import HTTPError

from prometheus_client.parser import text_string_to_metric_families

from headrace.declare.alerts.alert import Alert, WatchedValue
from headrace.declare.alerts.alert_values import Objective, Series, Share
from headrace.declare.durations import duration_text
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.metric_family import MetricType
from headrace.server.auth.internal_client import TOKEN_VARIABLE, InternalClient
from headrace.telemetry.values.counter_history import CounterHistory, worst_burn_rate
from headrace.telemetry.values.value_source import ValueReading

SCRAPE_TIMEOUT_SECONDS = 5.0
MAX_RESPONSE_BYTES = 64 << 20
SERVER_UP = Series("headrace_server_up", ())
LOGGER = logging.getLogger("headrace.alerts")


class MetricSample(NamedTuple):
    """One line of /metrics."""

    labels: Mapping[str, str]
    value: float


MetricSamples = dict[str, list[MetricSample]]


def scrape_metrics(client: InternalClient) -> MetricSamples | None:
    """The samples of a server; None where it does not answer, or not in Prometheus' format."""
    try:
        with client.get("/metrics", SCRAPE_TIMEOUT_SECONDS) as response:
            return parse_samples(response.read(MAX_RESPONSE_BYTES).decode())
    except HTTPError as error:
        LOGGER.warning("%s/metrics answered %d; set a valid token in %s", client.url, error.code, TOKEN_VARIABLE)
        return None
    except (OSError, HTTPException, ValueError):
        return None


def parse_samples(text: str) -> MetricSamples:
    """The samples of /metrics by metric name."""
    samples: MetricSamples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(MetricSample(sample.labels, sample.value))
    return samples


class ServerValues:
    """The latest samples of a server's /metrics, and their increase since this started."""

    def __init__(self, client: InternalClient, alerts: Iterable[Alert]) -> None:
        self._client = client
        self._samples: MetricSamples | None = None
        self._histories = {watched: _create_history(watched) for watched in map(_watched_over_time, alerts) if watched}

    def refresh(self, now_us: int) -> None:
        self.apply_samples(scrape_metrics(self._client), now_us)

    def apply_samples(self, samples: MetricSamples | None, now_us: int) -> None:
        """Apply the current samples; None where the server did not answer."""
        self._samples = samples
        for watched, history in self._histories.items():
            bad, total = (self._series_value(series) for series in _bad_and_total(watched))
            if total is not None:  # a missing part of a known total is 0
                history.add(bad or 0.0, total, now_us)

    def read(self, watched: WatchedValue, now_us: int) -> ValueReading | None:
        if watched == SERVER_UP:
            is_up = self._samples is not None
            return ValueReading(float(is_up), "it answers" if is_up else "it does not answer")
        if self._samples is None:
            return None
        match watched:
            case Objective():
                return self._read_objective(watched, now_us)
            case Share():
                return self._read_share(watched, now_us)
            case Series():
                return self._read_series(watched, now_us)
        return None

    def _read_objective(self, objective: Objective, now_us: int) -> ValueReading | None:
        history = self._histories[objective]
        worst = worst_burn_rate(objective, history, now_us) if len(history) else None
        if worst is None:
            return None
        burn = worst[1]
        shares = [
            f"{increase.share:.3g} of {increase.total:.0f} in {duration_text(window_us)}"
            for window_us in (burn.long_window_us, burn.short_window_us)
            if (increase := history.increase_within(window_us, now_us)).total
        ]
        return ValueReading(worst[0], f"{' and '.join(shares)}, {objective.allowed:g} is allowed")

    def _read_share(self, share: Share, now_us: int) -> ValueReading | None:
        history = self._histories[share]
        if not len(history):
            return None
        increase = history.increase_within(share.over_us, now_us)
        if increase.total < share.at_least:
            return None
        return ValueReading(
            increase.share, f"{increase.share:.3g} of {increase.total:.0f} in {duration_text(share.over_us)}"
        )

    def _read_series(self, series: Series, now_us: int) -> ValueReading | None:
        if series.over_us is None:
            return _to_reading(self._series_value(series))
        history = self._histories[series]
        return _to_reading(history.increase_within(series.over_us, now_us).total) if len(history) else None

    def _series_value(self, series: Series) -> float | None:
        """The value of the samples with these labels: counters are summed, of gauges the highest counts."""
        samples = self._samples or {}
        if series.metric_type is MetricType.HISTOGRAM:
            return _histogram_count(samples, series)
        series_samples = samples.get(series.name, ())
        values = [sample.value for sample in series_samples if _has_labels(sample, series.labels)]
        if series.metric_type is MetricType.GAUGE:
            return max(values, default=None)
        # A counter of a view whose other counters are reported is 0 until it is reported itself.
        subject_labels = [label for label in series.labels if label[0] == METRIC_CATALOG[series.name].labels[0]]
        return sum(values) if values or any(_has_labels(sample, subject_labels) for sample in series_samples) else None


def _watched_over_time(alert: Alert) -> Series | Share | Objective | None:
    """The value of an alert that needs a history."""
    match alert.on:
        case Share() | Objective() as watched:
            return watched
        case Series() as series if series.over_us is not None:
            return series
    return None


def _bad_and_total(watched: Series | Share | Objective) -> tuple[Series, Series]:
    return (watched, watched) if isinstance(watched, Series) else (watched.bad, watched.total)


def _create_history(watched: Series | Share | Objective) -> CounterHistory:
    if isinstance(watched, Objective):
        return CounterHistory(
            min(burn.short_window_us for burn in watched.burn_rates),
            max(burn.long_window_us for burn in watched.burn_rates),
        )
    over_us = watched.over_us or 0
    return CounterHistory(over_us, over_us)


def _has_labels(sample: MetricSample, labels: Iterable[tuple[str, str]]) -> bool:
    return all(sample.labels.get(name) == value for name, value in labels)


def _histogram_count(samples: MetricSamples, series: Series) -> float | None:
    """The number of observations, or of those beyond the first bound that is at least `slower_us`."""
    counts = [sample.value for sample in samples.get(f"{series.name}_count", ()) if _has_labels(sample, series.labels)]
    if not counts or series.slower_us is None:
        return sum(counts) if counts else None
    buckets = [one for one in samples.get(f"{series.name}_bucket", ()) if _has_labels(one, series.labels)]
    bounds = {float(one.labels["le"]) for one in buckets}
    bound = min(bound for bound in bounds if bound >= series.slower_us / 1e6)
    return sum(counts) - sum(one.value for one in buckets if float(one.labels["le"]) == bound)


def _to_reading(value: float | None) -> ValueReading | None:
    return None if value is None else ValueReading(value, f"{value:.4g}")
