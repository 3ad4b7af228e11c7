"""GET /metrics: every count of the server and the app in Prometheus' format."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headrace.declare.app import App
from headrace.declare.streams.stream import Stream
from headrace.kafka.consumers.consumer_lag import LagSnapshot
from headrace.kafka.ledger import LedgerCounts
from headrace.kafka.status.app_status import AppStatus
from headrace.kafka.status.heartbeat import SILENT_AFTER_US, is_stalled
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.alerting import AlertingProgress
from headrace.kafka.status.reports.connectors import CaptureProgress, OutboxProgress, SinkProgress, SourceProgress
from headrace.kafka.status.reports.lake import ConsistencyCheckProgress, IngestionProgress
from headrace.kafka.status.reports.models import DriftProgress, OutcomesProgress, QualityProgress, ScorerProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.online_store.memory.memory_store import ViewTable
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request
from headrace.server.metrics.hot_keys import MIN_EVENTS, HotKeyReport, HotKeyStats
from headrace.server.metrics.ledgers import StreamLedgers
from headrace.server.metrics.model_metrics import drift_metrics, outcome_metrics, quality_metrics, scorer_metrics
from headrace.server.metrics.outage_metrics import outage_metrics
from headrace.server.metrics.prometheus import LabelledValue, create_metric, to_samples
from headrace.server.metrics.request_stats import RequestStats
from headrace.server.metrics.server_counts import ServerCounts, TableCounts

MAX_RANK = 3


@dataclass(frozen=True)
class MetricSources:
    """The sources of all metrics; `tables` is empty where the store is in another process.

    `get_counts` may return the sum over several workers.
    """

    app: App
    progress_table: ProgressTable
    ledgers: StreamLedgers
    tables: Mapping[str, ViewTable]
    get_counts: Callable[[], ServerCounts]
    get_hot_keys: Callable[[], HotKeyReport] = HotKeyReport
    get_consumer_lag: Callable[[], LagSnapshot] = LagSnapshot
    get_app_status: Callable[[], AppStatus] = AppStatus


class MetricsHandler(Collector):
    """Serves the current metrics."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def __call__(self, request: Request) -> Response:
        # OpenMetrics, which has units, for clients that accept it.
        encode, content_type = choose_encoder((request.header(b"accept") or b"").decode("latin-1"))
        # In a thread, so that other requests are answered meanwhile.
        return Response(200, await asyncio.to_thread(encode, self._registry), content_type.encode())

    def collect(self) -> Iterator[Metric]:
        sources = self._sources
        accounts = sources.ledgers.accounts()
        yield from event_metrics(accounts)
        yield from lag_metrics(sources.get_consumer_lag(), accounts)
        yield duplicate_metric(sources.app, accounts, sources.tables)
        counts = sources.get_counts()
        yield from table_metrics(sources.tables)
        yield from apply_metrics(counts.tables)
        yield from request_metrics(counts.requests)
        yield from prediction_metrics(counts)
        yield from query_metrics(sources.progress_table.latest(QueryProgress))
        yield from check_metrics(sources.progress_table.latest(ConsistencyCheckProgress))
        yield from ingestion_metrics(sources.progress_table.latest(IngestionProgress))
        yield from scorer_metrics(sources.progress_table.latest(ScorerProgress))
        yield from sink_metrics(sources.progress_table.latest(SinkProgress))
        yield from outbox_metrics(sources.progress_table.latest(OutboxProgress))
        yield from sink_lag_metrics(sources.get_consumer_lag(), sources.app)
        yield from source_metrics(sources.progress_table.latest(SourceProgress))
        yield from capture_metrics(sources.progress_table.latest(CaptureProgress))
        yield from alert_metrics(sources.progress_table.latest(AlertingProgress))
        yield from outcome_metrics(sources.progress_table.latest(OutcomesProgress))
        yield from drift_metrics(sources.progress_table.latest(DriftProgress))
        yield from quality_metrics(sources.progress_table.latest(QualityProgress))
        yield from hot_key_metrics(sources.get_hot_keys())
        yield from outage_metrics(sources.get_app_status())


def event_metrics(accounts: Mapping[str, LedgerCounts]) -> Iterator[Metric]:
    """The fate of every record."""
    fates = [
        ([stream, fate], count)
        for stream, account in accounts.items()
        for fate, count in (
            ("in", account.arrived),
            ("clean", account.clean),
            ("late", account.late),
            ("dead", account.dead),
            ("dropped", account.dropped),
        )
    ]
    reasons = [([stream, reason], n) for stream, told in accounts.items() for reason, n in told.reasons.items()]
    lags = [([stream], told.pending) for stream, told in accounts.items()]
    yield create_metric("events_total", fates)
    yield create_metric("dead_total", reasons)
    yield create_metric("lag", lags)


def lag_metrics(consumer_lag: LagSnapshot, streams: Iterable[str]) -> Iterator[Metric]:
    """The consumer lag of every reader of the log, and its time to catch up."""
    gate_delays = [([stream], consumer_lag.longest_wait_s(f"{stream}.gate") or 0.0) for stream in streams]
    yield create_metric("lag_seconds", gate_delays)
    labelled_lags = [
        ([lag.query, lag.partition.topic, str(lag.partition.number)], lag) for lag in consumer_lag.reported_lags
    ]
    yield create_metric("query_lag", [(labels, lag.records) for labels, lag in labelled_lags])
    yield create_metric("query_lag_seconds", [(labels, lag.seconds) for labels, lag in labelled_lags])
    catch_up_times = consumer_lag.remaining_catch_up_s(time.monotonic())
    yield create_metric("catch_up_seconds", [([query], seconds) for query, seconds in catch_up_times.items()])


def duplicate_metric(app: App, accounts: Mapping[str, LedgerCounts], tables: Mapping[str, ViewTable]) -> Metric:
    """Clean events that are in no tile, because their id was there before; exact when nothing is in flight."""
    folded_counts = ((stream, _folded_events(app, stream, tables)) for stream in app.streams if stream.name in accounts)
    samples: list[LabelledValue] = [
        ([stream.name], max(0, accounts[stream.name].clean - folded))
        for stream, folded in folded_counts
        if folded is not None
    ]
    return create_metric("duplicates_total", samples)


def _folded_events(app: App, stream: Stream, tables: Mapping[str, ViewTable]) -> int | None:
    """The stream's events in the tiles of the first view by its key: every clean event is in one."""
    views = [view for view in app.views_of(stream) if view.by == (stream.key,) and view.name in tables]
    return tables[views[0].name].stream_event_count(stream) if views else None


def table_metrics(tables_by_name: Mapping[str, ViewTable]) -> Iterator[Metric]:
    """The size of the store in this process."""
    named_tables = list(tables_by_name.items())
    yield create_metric("entities", [([name], len(table)) for name, table in named_tables])
    yield create_metric("tiles", [([name], table.tile_count) for name, table in named_tables])
    yield create_metric("store_bytes", [([name], of_view.size_bytes) for name, of_view in named_tables])


def apply_metrics(counts_by_view: Mapping[str, TableCounts]) -> Iterator[Metric]:
    """The outcome of changelog records, and the delay until the store applied them."""
    rejected = [([name], counts.rejected_records) for name, counts in counts_by_view.items()]
    yield create_metric("refused_tiles_total", rejected)
    delays = [([name], table.apply_delays) for name, table in counts_by_view.items()]
    yield create_metric("apply_seconds", delays)


def request_metrics(stats_by_path: Mapping[str, RequestStats]) -> Iterator[Metric]:
    """Requests, their status and their duration; a route without a request has no samples."""
    responses = [
        ([path, str(status)], n) for path, stats in stats_by_path.items() for status, n in stats.statuses.copy().items()
    ]
    yield create_metric("requests_total", responses)
    delays = [([path], tally.delays) for path, tally in stats_by_path.items() if tally.statuses]
    yield create_metric("request_seconds", delays)


def prediction_metrics(counts: ServerCounts) -> Iterator[Metric]:
    """Events scored over HTTP, those that were degraded, and those that were not logged."""
    stats_by_model = counts.predictions
    scored = [([model], stats.scored) for model, stats in stats_by_model.items()]
    yield create_metric("http_predictions_total", scored)
    degraded = [
        ([model, reason], n)
        for model, model_stats in stats_by_model.items()
        for reason, n in model_stats.degraded.copy().items()
    ]
    yield create_metric("http_predictions_degraded_total", degraded)
    lost = [([model], counts.lost_predictions[model]) for model in stats_by_model]
    yield create_metric("predictions_lost_total", lost)


def check_metrics(progress_reports: Iterable[ConsistencyCheckProgress]) -> Iterator[Metric]:
    """The results of the continuous check of served values."""
    reports = list(progress_reports)
    outcomes = [([report.checked, name], float(count)) for report in reports for name, count in report.outcomes.items()]
    yield create_metric("checked_values_total", outcomes)
    answers = [([one.checked], float(one.answers)) for one in reports]
    yield create_metric("checked_answers_total", answers)


def ingestion_metrics(progress_reports: Iterable[IngestionProgress]) -> Iterator[Metric]:
    """How far the lake is behind the log."""
    reports = list(progress_reports)
    lags = [([report.landed], report.left) for report in reports]
    yield create_metric("lake_lag", lags)
    durations = [([one.landed], one.seconds) for one in reports]
    yield create_metric("lake_step_seconds", durations)
    step_times = [([one.landed], one.at_us / 1e6) for one in reports]
    yield create_metric("lake_step_at_seconds", step_times)


def sink_metrics(progress_reports: Iterable[SinkProgress]) -> Iterator[Metric]:
    """The counts of each sink's workers, those that have ended included."""
    yield from _delivery_metrics("sink", [(report.sunk, report) for report in progress_reports])


def outbox_metrics(progress_reports: Iterable[OutboxProgress]) -> Iterator[Metric]:
    """The counts of each outbox's relays, those that have ended included."""
    named_reports = [(report.relayed, report) for report in progress_reports]
    yield from _delivery_metrics("outbox", named_reports)
    latest_waits = {name: one.waited_seconds for name, one in sorted(named_reports, key=lambda pair: pair[1].at_us)}
    yield create_metric("outbox_waited_seconds", [([name], seconds) for name, seconds in latest_waits.items()])


def _delivery_metrics(
    kind: str, named_reports: Iterable[tuple[str, SinkProgress | OutboxProgress]]
) -> Iterator[Metric]:
    """Delivered rows, by the name of the sink or outbox."""
    fates: Counter[tuple[str, ...]] = Counter()
    parked: Counter[tuple[str, ...]] = Counter()
    retries: Counter[tuple[str, ...]] = Counter()
    for name, report in named_reports:
        fates.update({(name, fate): count for fate, count in report.rows.items()})
        parked.update({(name, reason): count for reason, count in report.parked.items()})
        retries[name,] += report.retries
    yield create_metric(f"{kind}_rows_total", to_samples(fates))
    yield create_metric(f"{kind}_parked_total", to_samples(parked))
    yield create_metric(f"{kind}_retries_total", to_samples(retries))


def sink_lag_metrics(consumer_lag: LagSnapshot, app: App) -> Iterator[Metric]:
    """The lag of sinks by the committed offsets of their groups, which includes dead workers."""
    records_by_query: Counter[str] = Counter()
    for lag in consumer_lag.lags:
        records_by_query[lag.query] += lag.records
    yield create_metric("sink_lag", [([sink.name], records_by_query[sink.query]) for sink in app.sinks])
    delays = [([sink.name], consumer_lag.longest_wait_s(sink.query) or 0.0) for sink in app.sinks]
    yield create_metric("sink_lag_seconds", delays)


def capture_metrics(progress_reports: Iterable[CaptureProgress]) -> Iterator[Metric]:
    """Whether tables are captured, and how much log their databases retain for that."""
    reports, now_us = list(progress_reports), time.time_ns() // 1000
    yield create_metric("capture_waits", [([report.captured], int(is_stalled(report, now_us))) for report in reports])
    yield create_metric("capture_kept_bytes", [([one.captured], one.kept_bytes) for one in reports])


def source_metrics(progress_reports: Iterable[SourceProgress]) -> Iterator[Metric]:
    """What bridges have copied, and whether they run."""
    reports, now_us = list(progress_reports), time.time_ns() // 1000
    yield create_metric("bridge_copied_total", [([report.bridged], report.copied) for report in reports])
    yield create_metric("bridge_left", [([one.bridged], one.left) for one in reports])
    yield create_metric("bridge_waits", [([one.bridged], int(is_stalled(one, now_us))) for one in reports])


def alert_metrics(progress_reports: Iterable[AlertingProgress]) -> Iterator[Metric]:
    """The last report of the alert monitor."""
    reports = list(progress_reports)
    yield create_metric("alerts_firing", [([], report.firing) for report in reports])
    yield create_metric("watch_at_seconds", [([], last_report.at_us / 1e6) for last_report in reports])
    yield create_metric("notifications_total", _outcome_samples(one.notifications for one in reports))
    yield create_metric("pushes_total", _outcome_samples(one.pushes for one in reports))


def hot_key_metrics(report: HotKeyReport) -> Iterator[Metric]:
    """The shares of the heaviest keys, by rank and never by name, and the skew of partitions."""
    stream_keys = [key for key in report.keys if key.view is None]
    yield create_metric("hot_keys", _hot_key_counts(stream_keys))
    yield create_metric("hot_key_share", _hot_key_shares(stream_keys))
    view_keys = [key for key in report.keys if key.view is not None]
    yield create_metric("hot_entities", _hot_key_counts(view_keys))
    yield create_metric("hot_entity_share", _hot_key_shares(view_keys))
    skews = [([topic.topic], topic.skew) for topic in report.topics if topic.records >= MIN_EVENTS]
    yield create_metric("partition_skew", skews)


def _hot_key_counts(keys: Iterable[HotKeyStats]) -> list[LabelledValue]:
    counts: Counter[tuple[str, ...]] = Counter()
    for key in keys:
        counts[key.source_name,] += key.is_hot
    return to_samples(counts)


def _hot_key_shares(keys: Iterable[HotKeyStats]) -> list[LabelledValue]:
    return [([key.source_name, str(key.rank)], key.at_least) for key in keys if key.rank <= MAX_RANK]


def _outcome_samples(outcome_counts: Iterable[Mapping[str, Mapping[str, int]]]) -> list[LabelledValue]:
    """Samples by outcome and by where it came from."""
    return [
        ([name, outcome], float(n))
        for outcomes_by_name in outcome_counts
        for name, outcomes in outcomes_by_name.items()
        for outcome, n in outcomes.items()
    ]


def query_metrics(progress_reports: Iterable[QueryProgress]) -> Iterator[Metric]:
    """The last report of each query."""
    reports = list(progress_reports)
    silent_before_us = time.time_ns() // 1000 - SILENT_AFTER_US
    running = [
        ([report.query, report.lane], float(report.running and report.at_us > silent_before_us)) for report in reports
    ]
    yield create_metric("query_running", running)
    watermarks = [([one.query], one.watermark_us / 1e6) for one in reports if one.watermark_us is not None]
    yield create_metric("watermark_seconds", watermarks)
    yield create_metric("state_rows", [([one.query], one.state_rows) for one in reports])
    yield create_metric("state_bytes", [([one.query], one.state_bytes) for one in reports])
    dropped = [([one.query], one.dropped_by_watermark) for one in reports]
    yield create_metric("dropped_by_watermark_total", dropped)
    checkpoints = [([one.query], one.checkpoint_ms / 1000) for one in reports if one.checkpoint_ms is not None]
    yield create_metric("checkpoint_seconds", checkpoints)
