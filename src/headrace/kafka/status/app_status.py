"""The outages of a running app: since when, why, and their impact."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.declare.app import App
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.kafka.status.heartbeat import SILENT_AFTER_US
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.connectors import CaptureProgress, OutboxProgress, SinkProgress, SourceProgress
from headrace.kafka.status.reports.lake import IngestionProgress, MaintenanceProgress
from headrace.kafka.status.reports.models import DriftProgress, OutcomesProgress, ScorerProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.queries import QueryProgress

PART, QUERY, TABLE = "part", "query", "table"
OUTAGE_KINDS = (PART, QUERY, TABLE)
LAKE_PART = "lake"


@dataclass(frozen=True)
class Outage:
    """A failed component: its kind, its name, since when (None: unknown), why, and what is affected."""

    kind: str
    name: str
    since_us: int | None
    reason: str
    impact: str

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def sentence(self) -> str:
        """The outage as one sentence."""
        since = "" if self.since_us is None else f" since {format_utc(self.since_us)}"
        impact_sentence = f" Affected: {self.impact}" if self.impact else ""
        return f"{self.subject} is down{since}: {self.reason.removesuffix('.')}.{impact_sentence}"

    def to_json(self) -> dict[str, Any]:
        since = None if self.since_us is None else format_utc(self.since_us)
        return {"what": self.subject, "since": since, "why": self.reason, "affects": self.impact}


@dataclass(frozen=True)
class AppStatus:
    """The parts, queries and lake tables of one app at one time, and their outages."""

    parts: tuple[PartProgress, ...] = ()
    queries: tuple[QueryProgress, ...] = ()
    tables: tuple[IngestionProgress, ...] = ()
    outages: tuple[Outage, ...] = ()
    now_us: int = 0

    def is_running(self, query: QueryProgress) -> bool:
        """Whether a query has recently reported that it runs."""
        return is_running(query, self.now_us)

    def count_outages(self, kind: str) -> int:
        """The number of outages of a kind."""
        return sum(outage.kind == kind for outage in self.outages)


def build_app_status(
    app: App, progress: ProgressTable, now_us: int | None = None, *, more_parts: Iterable[PartProgress] = ()
) -> AppStatus:
    """The status of an app; `more_parts` are reports from another source; the newest of each part counts."""
    now_us = now_us or time.time_ns() // 1000
    parts = current_parts(app, [*progress.latest(PartProgress), *more_parts])
    queries = current_queries(app, progress)
    tables = current_tables(app, progress, parts)
    outages = (
        *_part_outages(parts, now_us),
        *_query_outages(app, queries, parts, now_us),
        *_table_outages(tables),
        *_maintenance_outages(app, tables, progress),
        *_evaluation_outages(app, progress),
        *_reported_outages(app, progress, now_us),
    )
    return AppStatus(parts, queries, tables, outages, now_us)


def is_running(query: QueryProgress, now_us: int) -> bool:
    """Whether a query has recently reported that it runs."""
    return query.running and now_us - query.at_us < SILENT_AFTER_US


def current_parts(app: App, reports: Iterable[PartProgress]) -> tuple[PartProgress, ...]:
    """The latest report of each part; omits parts that their supervisor no longer reports."""
    newest: dict[str, PartProgress] = {}
    for report in sorted((one for one in reports if one.app in ("", app.name)), key=lambda one: one.at_us):
        newest[report.part] = report
    last_us = max((one.at_us for one in newest.values()), default=0)
    return tuple(newest[name] for name in sorted(newest) if last_us - newest[name].at_us < SILENT_AFTER_US)


def current_queries(app: App, progress: ProgressTable) -> tuple[QueryProgress, ...]:
    """The queries that the app declares; of several with the same work, the one with the latest report."""
    derivations = {entry.query for entry in app.derivations}
    view_inputs = {(stream.name, view.name) for stream in app.streams for view in app.views_of(stream)}
    streams = {stream.name for stream in app.streams}
    newest: dict[tuple[str, ...], QueryProgress] = {}
    for one in sorted(progress.latest(QueryProgress), key=lambda one: one.at_us):
        if one.query in derivations:
            newest["derivation", one.query] = one
        elif one.is_gate and one.stream in streams:
            newest["gate", one.stream] = one
        for view in one.views:
            if (one.stream, view) in view_inputs and one.query not in derivations:
                newest["tiles", one.stream, view] = one
    return tuple(sorted({one.query: one for one in newest.values()}.values(), key=lambda one: one.query))


def current_tables(app: App, progress: ProgressTable, parts: Iterable[PartProgress]) -> tuple[IngestionProgress, ...]:
    """The lake tables of the app's topics; none if a supervisor runs no lake."""
    names = {entry.part for entry in parts}
    if names and LAKE_PART not in names:
        return ()
    topics = {"", *_app_topics(app)}
    return tuple(one for one in progress.latest(IngestionProgress) if one.topic in topics)


def format_utc(at_us: int) -> str:
    """A time in UTC.

    >>> format_utc(1_767_225_600_000_000)
    '2026-01-01T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _app_topics(app: App) -> Iterator[str]:
    for stream in app.streams:
        yield from (stream.name, stream.clean, stream.late_topic, stream.dead)
    for view in app.views:
        yield from (view.topic, view.served)
    for model in app.models:
        yield model.predictions


def _part_outages(parts: Iterable[PartProgress], now_us: int) -> Iterator[Outage]:
    for part in parts:
        if part.state in ("starting", "restarting") and now_us - part.at_us < SILENT_AFTER_US:
            reason = "it is being started" if part.down_since_us is None else part.error or "it has ended"
            yield Outage(PART, part.part, part.down_since_us, reason, part.affects)


def _query_outages(
    app: App, queries: Iterable[QueryProgress], parts: Iterable[PartProgress], now_us: int
) -> Iterator[Outage]:
    operation_queries = {entry.query for entry in app.derivations if isinstance(entry, StreamOperation)}
    down_drivers = {one.part: one for one in parts if one.down_since_us is not None}
    for one in queries:
        if is_running(one, now_us):
            continue
        driver = down_drivers.get("operate" if one.query in operation_queries else "stream")
        is_silent = now_us - one.at_us >= SILENT_AFTER_US
        reason = one.error or "it does not run"
        if driver is not None:
            reason = f"its driver {driver.part} is down: {driver.error}"
        elif is_silent:
            reason = f"it has not reported since {format_utc(one.at_us)}"
        yield Outage(QUERY, one.query, one.down_since_us or one.at_us, reason, describe_impact(one))


def describe_impact(query: QueryProgress) -> str:
    """The impact of a query's outage, as a sentence."""
    if query.derives:
        return f"{', '.join(query.derives)} get no new events."
    if query.views:
        return f"Features of {', '.join(query.views)} keep their last values."
    return f"New events of {query.stream} wait; features keep their last values."


def _table_outages(tables: Iterable[IngestionProgress]) -> Iterator[Outage]:
    for table in tables:
        if table.down_since_us is not None:
            impact = f"{table.landed} of the lake gets no new rows; {table.left} records wait."
            yield Outage(TABLE, table.landed, table.down_since_us, table.error or "no step has succeeded", impact)


def _maintenance_outages(app: App, tables: Iterable[IngestionProgress], progress: ProgressTable) -> Iterator[Outage]:
    names = {entry.landed for entry in tables}
    model_prefixes = tuple(f"gold/{model.name}_" for model in app.models)
    for one in progress.latest(MaintenanceProgress):
        if one.down_since_us is not None and (one.maintained in names or one.maintained.startswith(model_prefixes)):
            impact = f"Files of {one.maintained} are neither compacted nor deleted; its rows are whole."
            yield Outage("maintenance", one.maintained, one.down_since_us, one.error, impact)


def _evaluation_outages(app: App, progress: ProgressTable) -> Iterator[Outage]:
    for model in app.models:
        outcomes = progress.reports(OutcomesProgress).get(model.name)
        drift = progress.reports(DriftProgress).get(model.name)
        if outcomes is not None and outcomes.down_since_us is not None:
            impact = f"Labels of {model.name} are not joined: its quality keeps its last value."
            yield Outage("outcomes", model.name, outcomes.down_since_us, outcomes.error, impact)
        if drift is not None and drift.down_since_us is not None:
            impact = f"The drift of {model.name} keeps its last value."
            yield Outage("drift", model.name, drift.down_since_us, drift.error, impact)


def _reported_outages(app: App, progress: ProgressTable, now_us: int) -> Iterator[Outage]:
    """The outages that connectors and scorers report themselves; those that no longer report have none here."""
    since_us = now_us - SILENT_AFTER_US
    sinks, streams = {sink.name for sink in app.sinks}, {stream.name for stream in app.streams}
    outboxes, models = {outbox.name for outbox in app.outboxes}, {model.name for model in app.models}
    kinds: tuple[tuple[str, Iterable[Any], str, set[str], str], ...] = (
        ("sink", progress.latest(SinkProgress), "sunk", sinks, "Rows wait for this target; none is lost."),
        ("outbox", progress.latest(OutboxProgress), "relayed", outboxes, "Rows of this outbox wait; none is lost."),
        ("bridge", progress.latest(SourceProgress), "bridged", streams, "{} gets no new events."),
        ("capture", progress.latest(CaptureProgress), "captured", streams, "{} gets no changes."),
        ("model", progress.latest(ScorerProgress), "scored", models, "Events wait to be scored by {}; none is lost."),
    )
    for kind, reports, name_field, declared, impact in kinds:
        for report in reports:
            name = getattr(report, name_field)
            if name in declared and report.trouble and report.at_us > since_us:
                yield Outage(kind, name, None, report.trouble, impact.format(name))
