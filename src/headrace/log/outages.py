"""What of a running app is down: since when, why, and what does not work meanwhile."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.declare.app import App
from headrace.declare.derivation import Operation
from headrace.log.progress import SILENT_AFTER_US, LandingProgress, PartProgress, ProgressBoard, QueryProgress

PART, QUERY, TABLE = "part", "query", "table"
KINDS = (PART, QUERY, TABLE)
LAKE_PART = "lake"


@dataclass(frozen=True)
class Outage:
    """One thing that does not work: of which kind, its name, since when (None: not known), why, what is affected."""

    kind: str
    name: str
    since_us: int | None
    why: str
    affects: str

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def sentence(self) -> str:
        """As a person reads it."""
        since = "" if self.since_us is None else f" since {time_text(self.since_us)}"
        affected = f" Affected: {self.affects}" if self.affects else ""
        return f"{self.what} is down{since}: {self.why.removesuffix('.')}.{affected}"

    def as_json(self) -> dict[str, Any]:
        since = None if self.since_us is None else time_text(self.since_us)
        return {"what": self.what, "since": since, "why": self.why, "affects": self.affects}


@dataclass(frozen=True)
class AppStatus:
    """The parts, queries and lake tables of one app at one moment, and what of all that is down."""

    parts: tuple[PartProgress, ...] = ()
    queries: tuple[QueryProgress, ...] = ()
    tables: tuple[LandingProgress, ...] = ()
    outages: tuple[Outage, ...] = ()
    now_us: int = 0

    def is_running(self, query: QueryProgress) -> bool:
        """Whether a query runs and has said so lately."""
        return is_running(query, self.now_us)

    def count(self, kind: str) -> int:
        """How many of a kind are down."""
        return sum(one.kind == kind for one in self.outages)


def status_of(
    app: App, board: ProgressBoard, now_us: int | None = None, *, more_parts: Iterable[PartProgress] = ()
) -> AppStatus:
    """The status of an app; `more_parts` are states of parts from elsewhere, which count where they are newer."""
    now_us = now_us or time.time_ns() // 1000
    parts = current_parts(app, [*board.parts.copy().values(), *more_parts])
    queries = current_queries(app, board)
    tables = current_tables(app, board, parts)
    outages = (
        *_down_parts(parts, now_us),
        *_down_queries(app, queries, parts, now_us),
        *_down_tables(tables),
        *_down_maintenance(app, tables, board),
        *_down_evaluations(app, board),
        *_troubled(app, board, now_us),
    )
    return AppStatus(parts, queries, tables, outages, now_us)


def is_running(query: QueryProgress, now_us: int) -> bool:
    """Whether a query runs and has said so lately."""
    return query.running and now_us - query.at_us < SILENT_AFTER_US


def current_parts(app: App, said: Iterable[PartProgress]) -> tuple[PartProgress, ...]:
    """The newest word on each part; one that its supervisor no longer reports is a part no longer."""
    newest: dict[str, PartProgress] = {}
    for one in sorted((one for one in said if one.app in ("", app.name)), key=lambda one: one.at_us):
        newest[one.part] = one
    last_us = max((one.at_us for one in newest.values()), default=0)
    return tuple(newest[name] for name in sorted(newest) if last_us - newest[name].at_us < SILENT_AFTER_US)


def current_queries(app: App, board: ProgressBoard) -> tuple[QueryProgress, ...]:
    """The queries that the app's declarations need: of those that did the same work, the one that spoke last."""
    derivations = {one.query for one in app.derivations}
    kept = {(stream.name, view.name) for stream in app.streams for view in app.views_of(stream)}
    streams = {stream.name for stream in app.streams}
    newest: dict[tuple[str, ...], QueryProgress] = {}
    for one in sorted(board.latest.copy().values(), key=lambda one: one.at_us):
        if one.query in derivations:
            newest["derivation", one.query] = one
        elif one.is_gate and one.stream in streams:
            newest["gate", one.stream] = one
        for view in one.views:
            if (one.stream, view) in kept and one.query not in derivations:
                newest["tiles", one.stream, view] = one
    return tuple(sorted({one.query: one for one in newest.values()}.values(), key=lambda one: one.query))


def current_tables(app: App, board: ProgressBoard, parts: Iterable[PartProgress]) -> tuple[LandingProgress, ...]:
    """The lake tables of the app's topics; none where a supervisor runs no lake."""
    names = {one.part for one in parts}
    if names and LAKE_PART not in names:
        return ()
    topics = {"", *_topics(app)}
    return tuple(one for one in board.landings.copy().values() if one.topic in topics)


def time_text(at_us: int) -> str:
    """A moment in UTC.

    >>> time_text(1_767_225_600_000_000)
    '2026-01-01T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _topics(app: App) -> Iterator[str]:
    for stream in app.streams:
        yield from (stream.name, stream.clean, stream.late_topic, stream.dead)
    for view in app.views:
        yield from (view.topic, view.served)
    for model in app.models:
        yield model.predictions


def _down_parts(parts: Iterable[PartProgress], now_us: int) -> Iterator[Outage]:
    for one in parts:
        if one.state in ("starting", "restarting") and now_us - one.at_us < SILENT_AFTER_US:
            why = "it is being started" if one.down_since_us is None else one.error or "it has ended"
            yield Outage(PART, one.part, one.down_since_us, why, one.affects)


def _down_queries(
    app: App, queries: Iterable[QueryProgress], parts: Iterable[PartProgress], now_us: int
) -> Iterator[Outage]:
    operated = {one.query for one in app.derivations if isinstance(one, Operation)}
    drivers = {one.part: one for one in parts if one.down_since_us is not None}
    for one in queries:
        if is_running(one, now_us):
            continue
        driver = drivers.get("operate" if one.query in operated else "stream")
        is_silent = now_us - one.at_us >= SILENT_AFTER_US
        why = one.error or "it does not run"
        if driver is not None:
            why = f"its driver {driver.part} is down: {driver.error}"
        elif is_silent:
            why = f"it has not reported since {time_text(one.at_us)}"
        yield Outage(QUERY, one.query, one.down_since_us or one.at_us, why, affected_by(one))


def affected_by(query: QueryProgress) -> str:
    """What does not work while a query is down."""
    if query.derives:
        return f"{', '.join(query.derives)} get no new events."
    if query.views:
        return f"Features of {', '.join(query.views)} keep their last values."
    return f"New events of {query.stream} wait; features keep their last values."


def _down_tables(tables: Iterable[LandingProgress]) -> Iterator[Outage]:
    for one in tables:
        if one.down_since_us is not None:
            affected = f"{one.landed} of the lake gets no new rows; {one.left} records wait."
            yield Outage(TABLE, one.landed, one.down_since_us, one.error or "no step has succeeded", affected)


def _down_maintenance(app: App, tables: Iterable[LandingProgress], board: ProgressBoard) -> Iterator[Outage]:
    names = {one.landed for one in tables}
    own = tuple(f"gold/{model.name}_" for model in app.models)
    for one in board.maintenance.copy().values():
        if one.down_since_us is not None and (one.maintained in names or one.maintained.startswith(own)):
            affected = f"Files of {one.maintained} are neither compacted nor deleted; its rows are whole."
            yield Outage("maintenance", one.maintained, one.down_since_us, one.error, affected)


def _down_evaluations(app: App, board: ProgressBoard) -> Iterator[Outage]:
    for model in app.models:
        outcomes, drift = board.outcomes.get(model.name), board.drifts.get(model.name)
        if outcomes is not None and outcomes.down_since_us is not None:
            affected = f"Labels of {model.name} are not joined: its quality keeps its last value."
            yield Outage("outcomes", model.name, outcomes.down_since_us, outcomes.error, affected)
        if drift is not None and drift.down_since_us is not None:
            affected = f"The drift of {model.name} keeps its last value."
            yield Outage("drift", model.name, drift.down_since_us, drift.error, affected)


def _troubled(app: App, board: ProgressBoard, now_us: int) -> Iterator[Outage]:
    """Whoever says itself that it cannot go on; who has fallen silent says nothing any more."""
    since_us = now_us - SILENT_AFTER_US
    sinks, streams = {sink.name for sink in app.sinks}, {stream.name for stream in app.streams}
    outboxes, models = {outbox.name for outbox in app.outboxes}, {model.name for model in app.models}
    kinds: tuple[tuple[str, Iterable[Any], str, set[str], str], ...] = (
        ("sink", board.sinks.copy().values(), "sunk", sinks, "Rows wait for this target; none is lost."),
        ("outbox", board.outboxes.copy().values(), "relayed", outboxes, "Rows of this outbox wait; none is lost."),
        ("bridge", board.bridges.copy().values(), "bridged", streams, "{} gets no new events."),
        ("capture", board.captures.copy().values(), "captured", streams, "{} gets no changes."),
        ("model", board.scorers.copy().values(), "scored", models, "Events wait to be scored by {}; none is lost."),
    )
    for kind, reports, subject, declared, affects in kinds:
        for one in reports:
            name = getattr(one, subject)
            if name in declared and one.trouble and one.at_us > since_us:
                yield Outage(kind, name, None, one.trouble, affects.format(name))
