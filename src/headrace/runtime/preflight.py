"""The checks before an app starts: `headrace up` stops at the first failure, `headrace plan` lists all failures.

up     every check ──▶ broker ──▶ checks that read the log ──▶ parts
plan   every check, and those that read the log if --broker is given
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.declare.app import App
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import require_free
from headrace.errors import HeadraceError
from headrace.lake.lake import require_compatible_tables
from headrace.monitoring.outcomes.lookback import require_retention
from headrace.online_store.registry import require_store
from headrace.runtime.part_runner import (
    require_answerable_queries,
    require_bridge_drivers,
    require_capturable,
    require_known_alerts,
    require_online_learners,
    require_outbox_driver,
    require_sink_drivers,
    require_valid_endpoints,
)
from headrace.runtime.parts.lake_part import build_lake
from headrace.runtime.server_access import require_secure_server
from headrace.runtime.settings import Settings
from headrace.runtime.topic_claims import require_unowned_topics


@dataclass(frozen=True)
class StartRequest:
    """The app to start: its path as given by the user, its declarations, and its settings."""

    app_path: str
    app: App
    settings: Settings


@dataclass(frozen=True)
class PreflightCheck:
    """A condition that must hold before an app starts."""

    name: str
    require: Callable[[StartRequest], None]


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: its failure, or why it was skipped; neither if it passed."""

    check: str
    refused: str | None = None
    skipped: str | None = None


def _require_lake(request: StartRequest) -> None:
    lake = build_lake(request.app, request.settings)
    if lake is not None:
        require_compatible_tables(lake)
        require_retention(request.app, lake.retention)


def _require_state(request: StartRequest) -> None:
    """Raise if the saved state, or that of the savepoint, does not fit the declarations."""
    from headrace.spark.checkpoints.savepoints import savepoint_folder
    from headrace.spark.checkpoints.state_plan import plan_state

    app, settings = request.app, request.settings
    state_folder = (
        settings.state if settings.savepoint is None else savepoint_folder(settings.state, settings.savepoint)
    )
    plan_state(app, state_folder, settings.rebuild, since_us=settings.since_us)


CHECKS = (
    PreflightCheck("access", lambda start: require_secure_server(start.settings)),
    PreflightCheck("webhook and telemetry", lambda start: require_valid_endpoints(start.settings)),
    PreflightCheck("alerts that models wait for", lambda start: require_known_alerts(start.app_path, start.app)),
    PreflightCheck("online learning", lambda start: require_online_learners(start.app)),
    PreflightCheck("sinks", lambda start: require_sink_drivers(start.app, start.settings)),
    PreflightCheck("outboxes", lambda start: require_outbox_driver(start.app)),
    PreflightCheck("bridges", lambda start: require_bridge_drivers(start.app)),
    PreflightCheck("captured tables", lambda start: require_capturable(start.app)),
    PreflightCheck("saved queries", lambda start: require_answerable_queries(start.app)),
    PreflightCheck("store", lambda start: require_store(start.settings.store)),
    PreflightCheck("lake", _require_lake),
    PreflightCheck("kept state", _require_state),
    PreflightCheck("java", lambda _start: _require_java()),
)
PORT_CHECK = "port of --http"
PARTITIONS_CHECK, OWNERS_CHECK = "partitions of topics", "owners of topics"


def _require_java() -> None:
    find_java()


def require_startable(app_path: str, app: App, settings: Settings) -> None:
    """Raise, before anything is started or written, if the app cannot run with its settings."""
    request = StartRequest(app_path, app, settings)
    for check in CHECKS:
        check.require(request)
    require_free(settings.port, settings.host, setting="--http")


def run_checks(app_path: str, app: App, settings: Settings) -> Iterator[CheckResult]:
    """Run every check; skips those that read the log if no broker is given."""
    request = StartRequest(app_path, app, settings)
    for check in CHECKS:
        yield CheckResult(check.name, _run_check(check, request))
    yield CheckResult(PORT_CHECK, skipped="`up` looks whether it is free when it starts")
    yield CheckResult(PARTITIONS_CHECK, skipped="`up` looks at them, and makes those that are missing")
    if settings.broker is None:
        yield CheckResult(OWNERS_CHECK, skipped="it needs a broker. Give --broker HOST:PORT")
    else:
        owners_check = PreflightCheck(OWNERS_CHECK, lambda start: require_unowned_topics(start.app, start.settings))
        yield CheckResult(OWNERS_CHECK, _run_check(owners_check, request))


def _run_check(check: PreflightCheck, request: StartRequest) -> str | None:
    try:
        check.require(request)
    except HeadraceError as error:
        return str(error)
    return None
