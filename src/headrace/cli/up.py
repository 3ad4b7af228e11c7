"""`headrace up APP`: everything on this machine; Ctrl-C stops it cleanly; started again, it goes on where it was."""

import json
import os
import sys
import time
import urllib.error
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from headrace.cli.guarded import door_of
from headrace.cli.lake import missing_outcomes
from headrace.cli.ownership import claim_all
from headrace.cli.preflight import require_startable
from headrace.cli.run import (
    broker_of,
    is_captured,
    stop_on_signals,
)
from headrace.cli.savepoint import go_back
from headrace.cli.settings import Settings, settings_of, settings_options
from headrace.cli.subjects import require_schemas
from headrace.declare.app import App, load_app
from headrace.declare.derivation import Operation
from headrace.declare.durations import duration_text
from headrace.local.broker import Broker
from headrace.local.jars import jar_paths
from headrace.local.registry import EmbeddedRegistry
from headrace.local.supervise import ProcessPart, Supervisor
from headrace.log.topics import ensure_topics
from headrace.serve.access import USUAL_RATE, Access
from headrace.serve.door import TOKEN_VARIABLE, Door
from headrace.stream.generations import possible_plans, remember
from headrace.stream.operations import begin_run, possible_runs, rebuilt

ASK_SECONDS = 1.0
PATIENCE_SECONDS = 60.0


@click.command()
@click.argument("app")
@settings_options
@click.option("--registry", "schema_registry", is_flag=True, help="Start a schema registry here as well.")
@click.option("--registry-port", default=8081, show_default=True, help="The port of the registry started here.")
def up(app: str, **flags: Any) -> None:
    """Run APP on this machine: broker, Spark queries, store and HTTP server."""
    settings = settings_of(flags)
    supervisor = Supervisor(say)
    try:
        _start_registry(supervisor, settings)
        _up(app, settings, supervisor)
    finally:
        supervisor.stop()
    say("stopped; started again, it goes on from here")


def _up(app: str, settings: Settings, supervisor: Supervisor) -> None:
    declared = load_app(app)
    stop = stop_on_signals()
    require_startable(app, declared, settings)
    jar_paths("spark", say)
    settings.state.mkdir(parents=True, exist_ok=True)
    require_schemas(declared, say)
    _start_broker(supervisor, settings)
    if (before := go_back(declared, settings)) is not None:
        say(f"gone back to savepoint {settings.savepoint}; what was kept until now is savepoint {before}")
    claim_all(declared, settings)
    _require_plan(declared, settings)
    _tell_parts(settings)
    needed, others = parts_of(settings, declared)
    start = partial(_start, supervisor, app, settings)
    start(needed)
    supervisor.watch(stop, settings.limit_s, Readiness(door_of(settings), partial(start, others)))


def say(line: str) -> None:
    """One line of progress."""
    click.echo(f"headrace: {line}")


def _start_registry(supervisor: Supervisor, settings: Settings) -> None:
    """First of all: the app's own declarations may ask it."""
    if settings.registry:
        registry = EmbeddedRegistry(settings.state, settings.registry_port, say)
        say(f"starting the schema registry: registry={registry.url!r}")
        supervisor.start("the schema registry", registry)


def _start_broker(supervisor: Supervisor, settings: Settings) -> None:
    if settings.broker is not None:
        return
    say(f"starting the broker on 127.0.0.1:{settings.broker_port}")
    supervisor.start("the broker", Broker(settings.state, settings.broker_port, say))


def _require_plan(app: App, settings: Settings) -> None:
    """Refuse before anything starts what the kept state cannot follow, and write down what now runs."""
    for missing in missing_outcomes(app, settings):
        say(missing)
    found = ensure_topics(broker_of(settings), app.streams, app.views, app.models)
    for warning in found.warnings:
        say(warning)
    again = rebuilt(app, settings.rebuild)
    runs = possible_runs(app, settings.state, again, settings.since_us)
    for plan in possible_plans(app, settings.state, found.partitions, again):
        remember(plan, settings.state)
        for change in plan.changes:
            say(f"{plan.stream.name}: {change}")
    for run in runs:
        begin_run(app, run, settings.state, broker_of(settings))
        for change in run.changes:
            say(f"{run.operation.name}: {change}")


def _tell_parts(settings: Settings) -> None:
    """What the processes of parts find in their environment."""
    os.environ["HEADRACE_STORE"] = settings.store  # not on a command line: it may hold a password
    os.environ["HEADRACE_WEBHOOK"] = settings.webhook or ""  # nor this: its path is a secret
    os.environ["HEADRACE_OTLP"] = settings.otlp or "off"
    os.environ.pop(TOKEN_VARIABLE, None)  # a user's: parts share the state folder and need none
    for planned in (
        "HEADRACE_REBUILD",
        "HEADRACE_SINCE",
        "HEADRACE_FROM_SAVEPOINT",
        "HEADRACE_TAKE_OVER",
    ):  # above, and not again whenever a part is started
        os.environ.pop(planned, None)


def _start(supervisor: Supervisor, app: str, settings: Settings, parts: Sequence[str]) -> None:
    logs = settings.state / "logs"
    say(f"starting {', '.join(parts)}; their logs are in {logs}")
    for part in parts:
        supervisor.start(part, ProcessPart(command_of(app, part, settings), logs / f"{part}.log"))


def parts_of(settings: Settings, app: App) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The processes of a running app: those an answer needs, and the others.

    A store of its own needs a worker that feeds it, models a scorer, windows, joins and patterns who runs their
    operators, captured tables Connect, sinks who brings events to them, outboxes who empties them, and streams that
    come from elsewhere who fetches them.
    """
    feeding = () if settings.store == "memory" else ("apply",)
    scoring = ("score",) if app.models else ()
    landing = () if settings.lake is None else ("lake",)
    training = ("retrain",) if any(model.retrain for model in app.models) else ()
    sinking = ("sink",) if app.sinks else ()
    relaying = ("outbox",) if app.outboxes else ()
    bridging = ("bridge",) if any(stream.from_ is not None for stream in app.streams) else ()
    operating = ("operate",) if any(isinstance(one, Operation) for one in app.derivations) else ()
    capturing = ("connect",) if is_captured(app) else ()
    needed = (*feeding, "serve", "stream", *bridging, *operating, *capturing, *scoring)
    return needed, ("check", "watch", *landing, *training, *sinking, *relaying)


def command_of(app: str, part: str, settings: Settings) -> list[str]:
    """How a part is started as a process of its own."""
    flags = {
        "--broker": broker_of(settings),
        "--http": settings.http,
        "--workers": str(settings.workers),
        "--state": str(settings.state),
        "--lane": settings.lane,
        "--checkpoint": f"{settings.checkpoint_seconds}s",
        "--alerts-every": duration_text(round(settings.alerts_every_s * 1_000_000)),
        "--otlp-every": duration_text(round(settings.otlp_every_s * 1_000_000)),
        "--lake": str(settings.lake or "off"),
        "--lake-every": duration_text(round(settings.lake_every_s * 1_000_000)),
        "--lake-retention": f"{settings.lake_retention.days}d" if settings.lake_retention else "forever",
        **({"--lake-format": settings.lake_format} if settings.lake_format else {}),
        **({"--spark": settings.spark} if settings.spark else {}),
        **({"--webhook-ca": str(settings.webhook_ca)} if settings.webhook_ca else {}),
    }
    pairs: list[tuple[str, ...]] = [
        *flags.items(),
        *(("--webhook-allow", address) for address in settings.webhook_allow),
    ]
    pairs += access_flags(settings.access)
    return [sys.executable, "-m", "headrace", "run", app, part, *(word for pair in pairs for word in pair)]


def access_flags(access: Access) -> list[tuple[str, ...]]:
    """How a part is told who may ask: where secrets are, never what they are."""
    files = {"--tls-cert": access.tls_cert, "--tls-key": access.tls_key}
    return [
        *((flag, str(file)) for flag, file in files.items() if file is not None),
        *([("--behind-proxy",)] if access.is_behind_proxy else []),
        *(("--allow-host", name) for name in access.names),
        *([("--rate", f"{access.rate:g}")] if access.rate != USUAL_RATE else []),
    ]


class Readiness:
    """Says once what is still missing, and then that everything is there.

    Who is not needed for an answer is started then, for a start takes all the cores there are; or after a while, for
    it is the watch that tells of an app that does not become ready.
    """

    def __init__(self, door: Door, start_others: Callable[[], None]) -> None:
        self._door, self._start_others = door, start_others
        self._said, self._looks, self._began = "", 0, time.monotonic()
        self._is_ready = self._has_started_others = False

    def __call__(self) -> None:
        self._looks += 1
        if not self._is_ready and self._looks % 5 == 0:
            self._ask()
        is_due = self._is_ready or time.monotonic() - self._began > PATIENCE_SECONDS
        if is_due and not self._has_started_others:
            self._has_started_others = True
            self._start_others()

    def _ask(self) -> None:
        missing = missing_at(self._door)
        if missing is None:
            return
        line = f"waiting: {'; '.join(missing)}" if missing else f"ready at {self._door.url}"
        if line != self._said:
            say(line)
            self._said = line
        self._is_ready = not missing


def missing_at(door: Door) -> list[str] | None:
    """What a server says it is missing; empty once it is ready, None where nobody answers yet."""
    try:
        with door.open("/v2/health/ready", ASK_SECONDS):
            return []
    except urllib.error.HTTPError as answer:
        return list(json.loads(answer.read()).get("missing", ["it does not say what"]))
    except OSError:
        return None
