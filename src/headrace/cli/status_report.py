"""What `headrace status` reports: read from the progress topic, the supervisor's file and the server's /metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.declare.app import App, load_app
from headrace.errors import HeadraceError
from headrace.local.child import ProcessId
from headrace.local.part_reporter import is_answering
from headrace.log.follow import Follower
from headrace.log.outages import AppStatus, Outage, status_of, time_text
from headrace.log.progress import SILENT_AFTER_US, TOPIC, ProgressBoard
from headrace.log.status_file import StatusFile, read_status
from headrace.log.strangers import BrokerUnreachable
from headrace.serve.door import Door
from headrace.watch.scrape import Samples, ask_metrics

READ_SECONDS = 5.0
Row = dict[str, Any]


@dataclass(frozen=True)
class StatusReport:
    """An app's status, what its broker and its server have to say, and whether anything of it runs."""

    app: str
    is_running: bool
    status: AppStatus
    board: ProgressBoard
    declared: App
    broker_error: str = ""
    lags: Mapping[str, "QueryLag"] = field(default_factory=dict)

    @property
    def down(self) -> tuple[Outage, ...]:
        return self.status.outages

    def as_json(self) -> Row:
        """Names and types that stay as they are."""
        return {
            "app": self.app,
            "running": self.is_running,
            "broker": {"answers": not self.broker_error, "error": self.broker_error},
            "parts": [*self._parts()],
            "queries": [*self._queries()],
            "tables": [*self._tables()],
            "connectors": [*self._connectors()],
            "consumers": [*self._consumers()],
            "down": [outage.as_json() for outage in self.down],
        }

    def _parts(self) -> Iterator[Row]:
        for one in self.status.parts:
            yield {
                "part": one.part,
                "state": one.state if self.is_running else "stopped",
                "down_since": _moment(one.down_since_us),
                "restarts": one.restarts,
                "last_error": one.error,
                "affects": one.affects if one.down_since_us is not None else "",
            }

    def _queries(self) -> Iterator[Row]:
        down = {outage.name: outage for outage in self.down if outage.kind == "query"}
        for one in self.status.queries:
            outage, lag = down.get(one.query), self.lags.get(one.query)
            yield {
                "query": one.query,
                "lane": one.lane,
                "running": outage is None,
                "down_since": None if outage is None else _moment(outage.since_us),
                "restarts": one.restarts,
                "lag_records": None if lag is None else lag.records,
                "lag_seconds": None if lag is None else lag.seconds,
                "watermark": _moment(one.watermark_us),
                "last_error": one.error,
            }

    def _tables(self) -> Iterator[Row]:
        for one in sorted(self.status.tables, key=lambda one: one.landed):
            yield {
                "table": one.landed,
                "last_step": _moment(one.at_us),
                "lag_records": one.left,
                "down_since": _moment(one.down_since_us),
                "last_error": one.error,
            }

    def _connectors(self) -> Iterator[Row]:
        """Sinks, outboxes, bridges and captured tables, each with what keeps it from going on."""
        trouble = {outage.what: outage.why for outage in self.down}
        for kind, name in connectors_of(self.declared, self.board):
            yield {"connector": f"{kind} {name}", "trouble": trouble.get(f"{kind} {name}", "")}

    def _consumers(self) -> Iterator[Row]:
        """Whoever else reads the log: scorers, sinks, the store, the lake."""
        queries = {one.query for one in self.status.queries}
        for name, lag in sorted(self.lags.items()):
            if name not in queries:
                yield {"consumer": name, "lag_records": lag.records, "lag_seconds": lag.seconds}


@dataclass(frozen=True)
class QueryLag:
    """How many records a reader of the log has not come to, and for how long the oldest has waited, at least."""

    records: int
    seconds: float


def gather(file: str, broker: str, flags: Mapping[str, Any]) -> StatusReport:
    """Everything that is known of an app now."""
    declared, state = load_app(file), Path(flags["state"])
    board, broker_error = read_progress(broker)
    written = _of_app(read_status(state), declared)
    status = status_of(declared, board, more_parts=() if written is None else written.parts)
    is_running = has_supervisor(written) or any_reports(status)
    samples = ask_metrics(_door(state, flags)) if is_running else None
    return StatusReport(
        app=declared.name,
        is_running=is_running,
        status=status if is_running else AppStatus(status.parts, now_us=status.now_us),
        board=board,
        declared=declared,
        broker_error=broker_error,
        lags=lags_of(samples),
    )


def read_progress(broker: str) -> tuple[ProgressBoard, str]:
    """What the progress topic says, and why it could not be read, if it could not."""
    board = ProgressBoard()
    if not is_answering(broker):
        return board, str(BrokerUnreachable(broker))
    with Follower(broker, [TOPIC], board.apply) as follower:
        try:
            is_read = follower.wait_until_caught_up(READ_SECONDS)
        except HeadraceError as error:
            return board, str(error)
    return board, "" if is_read else follower.trouble or f"{TOPIC} was not read within {READ_SECONDS:g} s."


def has_supervisor(written: StatusFile | None) -> bool:
    """Whether the process that wrote the status file still runs."""
    if written is None or not written.supervisor:
        return False
    if all(part.state == "stopped" for part in written.parts):
        return False
    return ProcessId(**written.supervisor).alive()


def any_reports(status: AppStatus) -> bool:
    """Whether any part or query has said lately that it is there."""
    since_us = status.now_us - SILENT_AFTER_US
    parts = (one.at_us > since_us and one.state != "stopped" for one in status.parts)
    return any(parts) or any(one.at_us > since_us for one in status.queries)


def lags_of(samples: Samples | None) -> dict[str, QueryLag]:
    """The lag of each reader of the log, over its partitions."""
    found: dict[str, QueryLag] = {}
    for sample in (samples or {}).get("headrace_query_lag", ()):
        before = found.get(sample.labels["query"], QueryLag(0, 0.0))
        found[sample.labels["query"]] = QueryLag(before.records + int(sample.value), before.seconds)
    for sample in (samples or {}).get("headrace_query_lag_seconds", ()):
        before = found.get(sample.labels["query"], QueryLag(0, 0.0))
        found[sample.labels["query"]] = QueryLag(before.records, max(before.seconds, round(sample.value, 3)))
    return found


def connectors_of(app: App, board: ProgressBoard) -> Sequence[tuple[str, str]]:
    """The connectors that an app declares, of each its kind and name."""
    return [
        *(("sink", sink.name) for sink in app.sinks),
        *(("outbox", outbox.name) for outbox in app.outboxes),
        *(("bridge", stream.name) for stream in app.streams if stream.from_ is not None),
        *(("capture", stream.name) for stream in app.streams if stream.name in board.captures),
    ]


def _of_app(written: StatusFile | None, app: App) -> StatusFile | None:
    return written if written is not None and written.app == app.name else None


def _door(state: Path, flags: Mapping[str, Any]) -> Door:
    certificate = flags["tls_cert"] and Path(flags["tls_cert"])
    return Door(f"{'https' if certificate else 'http'}://{flags['http']}", state, certificate)


def _moment(at_us: int | None) -> str | None:
    return None if at_us is None else time_text(at_us)
