"""The report of `headrace status`, from the progress topic, the supervisor's file and the server's /metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.declare.app import App, load_app
from headrace.embedded_servers.child_process import ProcessId
from headrace.errors import HeadraceError
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.status.app_status import AppStatus, Outage, build_app_status, format_utc
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC, SILENT_AFTER_US
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.connectors import CaptureProgress
from headrace.kafka.status.status_file import StatusFile, read_status
from headrace.runtime.parts.part_reporter import is_answering
from headrace.runtime.settings import broker_from_flags
from headrace.server.auth.internal_client import InternalClient
from headrace.telemetry.values.metrics_scraper import MetricSamples, scrape_metrics

READ_SECONDS = 5.0
Row = dict[str, Any]


@dataclass(frozen=True)
class StatusReport:
    """An app's status, the errors of its broker and its server, and whether any part of it runs."""

    app: str
    is_running: bool
    status: AppStatus
    progress: ProgressTable
    declared_app: App
    broker_error: str = ""
    lags: Mapping[str, "QueryLag"] = field(default_factory=dict)

    @property
    def outages(self) -> tuple[Outage, ...]:
        return self.status.outages

    def as_json(self) -> Row:
        """The report as JSON; its names and types are a stable interface."""
        return {
            "app": self.app,
            "running": self.is_running,
            "broker": {"answers": not self.broker_error, "error": self.broker_error},
            "parts": [*self._part_rows()],
            "queries": [*self._query_rows()],
            "tables": [*self._table_rows()],
            "connectors": [*self._connector_rows()],
            "consumers": [*self._consumer_rows()],
            "down": [outage.to_json() for outage in self.outages],
        }

    def _part_rows(self) -> Iterator[Row]:
        for part in self.status.parts:
            yield {
                "part": part.part,
                "state": part.state if self.is_running else "stopped",
                "down_since": _format_time(part.down_since_us),
                "restarts": part.restarts,
                "last_error": part.error,
                "affects": "" if part.state == "running" else part.affects,
            }

    def _query_rows(self) -> Iterator[Row]:
        outages_by_query = {outage.name: outage for outage in self.outages if outage.kind == "query"}
        for query in self.status.queries:
            outage, lag = outages_by_query.get(query.query), self.lags.get(query.query)
            yield {
                "query": query.query,
                "lane": query.lane,
                "running": outage is None,
                "down_since": None if outage is None else _format_time(outage.since_us),
                "restarts": query.restarts,
                "lag_records": None if lag is None else lag.records,
                "lag_seconds": None if lag is None else lag.seconds,
                "watermark": _format_time(query.watermark_us),
                "last_error": query.error,
            }

    def _table_rows(self) -> Iterator[Row]:
        for table in sorted(self.status.tables, key=lambda one: one.landed):
            yield {
                "table": table.landed,
                "last_step": _format_time(table.at_us),
                "lag_records": table.left,
                "down_since": _format_time(table.down_since_us),
                "last_error": table.error,
            }

    def _connector_rows(self) -> Iterator[Row]:
        """Sinks, outboxes, bridges and captured tables, each with its current error."""
        reasons = {outage.subject: outage.reason for outage in self.outages}
        for kind, name in declared_connectors(self.declared_app, self.progress):
            yield {"connector": f"{kind} {name}", "trouble": reasons.get(f"{kind} {name}", "")}

    def _consumer_rows(self) -> Iterator[Row]:
        """The other consumers of the log: scorers, sinks, the store, the lake."""
        queries = {query.query for query in self.status.queries}
        for name, lag in sorted(self.lags.items()):
            if name not in queries:
                yield {"consumer": name, "lag_records": lag.records, "lag_seconds": lag.seconds}


@dataclass(frozen=True)
class QueryLag:
    """The consumer lag of a reader of the log, and a lower bound of the oldest record's waiting time."""

    records: int
    seconds: float


def collect_status(app_path: str, broker: str | None, flags: Mapping[str, Any]) -> StatusReport:
    """Collect the status of an app; without a given broker, from that of its last `headrace up`."""
    loaded_app, state = load_app(app_path), Path(flags["state"])
    status_file = _own_status_file(read_status(state), loaded_app)
    last_broker = "" if status_file is None else status_file.broker
    progress, broker_error = read_progress(broker or last_broker or broker_from_flags(flags))
    status = build_app_status(loaded_app, progress, more_parts=() if status_file is None else status_file.parts)
    is_running = is_supervisor_alive(status_file) or has_recent_reports(status)
    samples = scrape_metrics(_internal_client(state, flags)) if is_running else None
    return StatusReport(
        app=loaded_app.name,
        is_running=is_running,
        status=status if is_running else AppStatus(status.parts, now_us=status.now_us),
        progress=progress,
        declared_app=loaded_app,
        broker_error=broker_error,
        lags=query_lags(samples),
    )


def read_progress(broker: str) -> tuple[ProgressTable, str]:
    """The reports of the progress topic, and the error if it could not be read."""
    progress = ProgressTable()
    if not is_answering(broker):
        return progress, str(BrokerUnreachable(broker))
    with TailingConsumer(broker, [PROGRESS_TOPIC], progress.apply) as follower:
        try:
            is_read = follower.wait_until_caught_up(READ_SECONDS)
        except HeadraceError as error:
            return progress, str(error)
    return progress, "" if is_read else follower.error or f"{PROGRESS_TOPIC} was not read within {READ_SECONDS:g} s."


def is_supervisor_alive(status_file: StatusFile | None) -> bool:
    """Whether the process that wrote the status file still runs."""
    if status_file is None or not status_file.supervisor:
        return False
    if all(part.state == "stopped" for part in status_file.parts):
        return False
    return ProcessId(**status_file.supervisor).is_alive()


def has_recent_reports(status: AppStatus) -> bool:
    """Whether any part or query has reported recently."""
    since_us = status.now_us - SILENT_AFTER_US
    part_reports = (report.at_us > since_us and report.state != "stopped" for report in status.parts)
    return any(part_reports) or any(one.at_us > since_us for one in status.queries)


def query_lags(samples: MetricSamples | None) -> dict[str, QueryLag]:
    """The lag of each reader of the log, over all its partitions."""
    lags: dict[str, QueryLag] = {}
    for sample in (samples or {}).get("headrace_query_lag", ()):
        previous = lags.get(sample.labels["query"], QueryLag(0, 0.0))
        lags[sample.labels["query"]] = QueryLag(previous.records + int(sample.value), previous.seconds)
    for sample in (samples or {}).get("headrace_query_lag_seconds", ()):
        previous = lags.get(sample.labels["query"], QueryLag(0, 0.0))
        lags[sample.labels["query"]] = QueryLag(previous.records, max(previous.seconds, round(sample.value, 3)))
    return lags


def declared_connectors(app: App, progress: ProgressTable) -> Sequence[tuple[str, str]]:
    """The kind and name of each connector that an app declares."""
    captures = progress.reports(CaptureProgress)
    return [
        *(("sink", sink.name) for sink in app.sinks),
        *(("outbox", outbox.name) for outbox in app.outboxes),
        *(("bridge", stream.name) for stream in app.streams if stream.from_ is not None),
        *(("capture", stream.name) for stream in app.streams if stream.name in captures),
    ]


def _own_status_file(status_file: StatusFile | None, app: App) -> StatusFile | None:
    return status_file if status_file is not None and status_file.app == app.name else None


def _internal_client(state: Path, flags: Mapping[str, Any]) -> InternalClient:
    certificate = flags["tls_cert"] and Path(flags["tls_cert"])
    return InternalClient(f"{'https' if certificate else 'http'}://{flags['http']}", state, certificate)


def _format_time(at_us: int | None) -> str | None:
    return None if at_us is None else format_utc(at_us)
