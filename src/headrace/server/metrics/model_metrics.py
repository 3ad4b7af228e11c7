"""Metrics of models: predictions, outcomes, drift and quality, from the reports of the parts that count them."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric

from headrace.declare.metric_catalog import DECIDE_SECONDS_BUCKETS, LABEL_SECONDS_BUCKETS
from headrace.kafka.status.heartbeat import SILENT_AFTER_US
from headrace.kafka.status.reports.models import DriftProgress, OutcomesProgress, QualityProgress, ScorerProgress
from headrace.online_store.delay_histogram import DelayHistogram
from headrace.server.metrics.prometheus import create_metric, to_samples

STALE_AFTER_US = 300_000_000  # for reports written once a minute: older ones are out of date


def scorer_metrics(progress_reports: Iterable[ScorerProgress]) -> Iterator[Metric]:
    """The counts of each model's scorers, those that have ended included; the lag is that of running ones."""
    predictions: Counter[tuple[str, ...]] = Counter()
    degraded: Counter[tuple[str, ...]] = Counter()
    lags: Counter[str] = Counter()
    delays: dict[str, DelayHistogram] = {}
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    for report in progress_reports:
        predictions.update({(report.scored, version, role): count for version, role, count in report.predictions})
        degraded.update({(report.scored, reason): count for reason, count in report.degraded.items()})
        lags[report.scored] += report.lag if report.at_us > silent_before_us else 0
        delays.setdefault(report.scored, DelayHistogram(DECIDE_SECONDS_BUCKETS)).merge(
            report.delays, report.delay_seconds
        )
    yield create_metric("predictions_total", to_samples(predictions))
    yield create_metric("degraded_total", to_samples(degraded))
    yield create_metric("score_lag", [([name], n) for name, n in lags.items()])
    delay_samples = [([name], model_delays) for name, model_delays in delays.items()]
    yield create_metric("score_seconds", delay_samples)


def outcome_metrics(progress_reports: Iterable[OutcomesProgress]) -> Iterator[Metric]:
    """The outcomes of predictions: the states of a model add up to all predictions seen."""
    reports = list(progress_reports)
    states = [
        ([report.judged, *state_labels], float(count)) for report in reports for *state_labels, count in report.counts
    ]
    yield create_metric("outcomes", states)
    yield create_metric("label_delay_seconds", [([one.judged], _label_delays(one)) for one in reports])
    clocks = [([one.judged], one.clock_us / 1e6) for one in reports if one.clock_us]
    yield create_metric("outcomes_clock_seconds", clocks)
    yield create_metric("outcomes_lag", [([of_model.judged], of_model.lag) for of_model in reports])
    rows = [([one.judged], float(one.state_rows)) for one in reports]
    yield create_metric("outcomes_state_rows", rows)
    state_sizes = [([one.judged], float(one.state_bytes)) for one in reports]
    yield create_metric("outcomes_state_bytes", state_sizes)
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    running = [([one.judged], float(one.running and one.at_us > silent_before_us)) for one in reports]
    yield create_metric("outcomes_running", running)


def drift_metrics(progress_reports: Iterable[DriftProgress]) -> Iterator[Metric]:
    """The drift of served features from the training data; stale reports are left out."""
    reports = [report for report in progress_reports if report.at_us > time.time_ns() // 1000 - STALE_AFTER_US]
    multiples = [([one.compared], one.multiple) for one in reports if one.multiple is not None]
    yield create_metric("drift", multiples)
    column_values = [([one.compared, name], value) for one in reports for name, value in one.columns.items()]
    yield create_metric("drift_column", column_values)
    statistics = [
        ([one.compared, name, test], value)
        for one in reports
        for name, column_statistics in one.statistics.items()
        for test, value in column_statistics.items()
    ]
    yield create_metric("drift_statistic", statistics)
    yield create_metric("drift_rows", [([one.compared], one.rows) for one in reports])
    yield create_metric("drift_lag", [([one.compared], one.lag) for one in reports])
    fates = [([one.compared, fate], float(count)) for one in reports for fate, count in one.fates.items()]
    yield create_metric("drift_records_total", fates)
    error_shares = [([one.compared], one.error_share) for one in reports if one.error_share is not None]
    yield create_metric("error_share", error_shares)
    error_changes = [
        ([one.compared, direction], float(count)) for one in reports for direction, count in one.error_changes.items()
    ]
    yield create_metric("error_changes_total", error_changes)


def quality_metrics(progress_reports: Iterable[QualityProgress]) -> Iterator[Metric]:
    """The quality of models by the outcomes that are due."""
    reports = [report for report in progress_reports if report.at_us > time.time_ns() // 1000 - STALE_AFTER_US]
    losses = [([one.measured], one.lost) for one in reports if one.lost is not None]
    yield create_metric("quality_lost", losses)
    coverages = [([one.measured], one.coverage) for one in reports if one.coverage is not None]
    yield create_metric("label_coverage", coverages)


def _label_delays(report: OutcomesProgress) -> DelayHistogram:
    delays = DelayHistogram(LABEL_SECONDS_BUCKETS)
    delays.merge(report.delays, report.delay_seconds)
    return delays
