"""What is checked before anything starts: `headrace up` gives up at the first refusal, `headrace plan` names them all.

up     every check ──▶ broker ──▶ checks that read the log ──▶ parts
plan   every check, and those that read the log where --broker is given
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.cli.guarded import require_guarded
from headrace.cli.lake import lake_of
from headrace.cli.ownership import require_unowned_topics
from headrace.cli.run import (
    require_answerable,
    require_bridgeable,
    require_capturable,
    require_known_reasons,
    require_learners,
    require_relayable,
    require_sinkable,
    require_tellable,
)
from headrace.cli.settings import Settings
from headrace.declare.app import App
from headrace.errors import HeadraceError
from headrace.evaluate.reach import require_kept
from headrace.lake.lake import require_fitting
from headrace.local.java import find_java
from headrace.local.ports import require_free
from headrace.store.kinds import require_store


@dataclass(frozen=True)
class Start:
    """What is to be started: the app, as the user named it and as it is declared, and its settings."""

    file: str
    app: App
    settings: Settings


@dataclass(frozen=True)
class Check:
    """Something that must hold before an app is started."""

    name: str
    require: Callable[[Start], None]


@dataclass(frozen=True)
class CheckResult:
    """What came of a check: why it refuses, or why it was skipped; neither where it passed."""

    check: str
    refused: str | None = None
    skipped: str | None = None


def _require_lake(start: Start) -> None:
    lake = lake_of(start.app, start.settings)
    if lake is not None:
        require_fitting(lake)
        require_kept(start.app, lake.retention)


def _require_state(start: Start) -> None:
    """Refuse what the kept state, or that of the savepoint to go back to, cannot follow."""
    from headrace.stream.kept_state import plan_on_state
    from headrace.stream.savepoints import folder_of

    app, settings = start.app, start.settings
    kept = settings.state if settings.savepoint is None else folder_of(settings.state, settings.savepoint)
    plan_on_state(app, kept, settings.rebuild, since_us=settings.since_us)


CHECKS = (
    Check("access", lambda start: require_guarded(start.settings)),
    Check("webhook and telemetry", lambda start: require_tellable(start.settings)),
    Check("alerts that models wait for", lambda start: require_known_reasons(start.file, start.app)),
    Check("online learning", lambda start: require_learners(start.app)),
    Check("sinks", lambda start: require_sinkable(start.app, start.settings)),
    Check("outboxes", lambda start: require_relayable(start.app)),
    Check("bridges", lambda start: require_bridgeable(start.app)),
    Check("captured tables", lambda start: require_capturable(start.app)),
    Check("saved queries", lambda start: require_answerable(start.app)),
    Check("store", lambda start: require_store(start.settings.store)),
    Check("lake", _require_lake),
    Check("kept state", _require_state),
    Check("java", lambda _start: _require_java()),
)
PORT = "port of --http"
PARTITIONS, OWNERS = "partitions of topics", "owners of topics"


def _require_java() -> None:
    find_java()


def require_startable(file: str, app: App, settings: Settings) -> None:
    """Refuse, before anything is started or written, an app that could not run as it is set up."""
    start = Start(file, app, settings)
    for check in CHECKS:
        check.require(start)
    require_free(settings.port, settings.host, setting="--http")


def check_results(file: str, app: App, settings: Settings) -> Iterator[CheckResult]:
    """What came of every check; those that read the log are skipped where no broker is given."""
    start = Start(file, app, settings)
    for check in CHECKS:
        yield CheckResult(check.name, _refusal(check, start))
    yield CheckResult(PORT, skipped="`up` looks whether it is free when it starts")
    yield CheckResult(PARTITIONS, skipped="`up` looks at them, and makes those that are missing")
    if settings.broker is None:
        yield CheckResult(OWNERS, skipped="it needs a broker. Give --broker HOST:PORT")
    else:
        owners = Check(OWNERS, lambda start: require_unowned_topics(start.app, start.settings))
        yield CheckResult(OWNERS, _refusal(owners, start))


def _refusal(check: Check, start: Start) -> str | None:
    try:
        check.require(start)
    except HeadraceError as refused:
        return str(refused)
    return None
