"""`headrace up APP`: everything on this machine; Ctrl-C stops it cleanly; started again, it goes on where it was."""

import json
import os
import threading
import time
import urllib.error
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import click

from headrace.cli.guarded import door_of, require_guarded
from headrace.cli.lake import lake_of, missing_outcomes
from headrace.cli.ownership import claim_all
from headrace.cli.parts import AFFECTS, BROKER, REGISTRY, command_of, parts_of
from headrace.cli.preflight import require_startable
from headrace.cli.run import broker_of, is_captured, require_tellable, stop_on_signals
from headrace.cli.savepoint import go_back
from headrace.cli.settings import Settings, settings_of, settings_options
from headrace.cli.subjects import require_schemas
from headrace.declare.app import App, load_app
from headrace.lake.lake import require_fitting
from headrace.local.broker import Broker
from headrace.local.jars import jar_paths
from headrace.local.java import find_java
from headrace.local.part_reporter import PartReporter
from headrace.local.ports import require_free
from headrace.local.registry import EmbeddedRegistry
from headrace.local.supervise import Keeper, ProcessPart, Supervisor
from headrace.log.schemas.subjects import NoSubject, asked_for
from headrace.log.strangers import BrokerUnreachable
from headrace.log.topics import ensure_topics
from headrace.private_folder import make_private_folder
from headrace.serve.door import TOKEN_VARIABLE, Door
from headrace.store.kinds import require_store
from headrace.stream.generations import remember
from headrace.stream.kept_state import plan_on_state
from headrace.stream.operations import begin_run

LOOK_SECONDS = 0.2
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
    running = Running(app, settings, stop_on_signals())
    try:
        running.require_startable()
        running.run()
    finally:
        running.stop()
    say("stopped; started again, it goes on from here")


class Running:
    """One run of `up`: what can never work is refused before anything starts; what fails later is restarted."""

    def __init__(self, file: str, settings: Settings, stop: threading.Event) -> None:
        self._file, self._settings, self._stop = file, settings, stop
        self._supervisor = Supervisor(say)
        self._reporter: PartReporter | None = None
        self._broker = None if settings.broker else Broker(settings.state, settings.broker_port, say)
        self._registry = EmbeddedRegistry(settings.state, settings.registry_port, say) if settings.registry else None

    def require_startable(self) -> None:
        """Refuse what no restart could mend: settings, a taken port, missing Java or jars."""
        settings = self._settings
        require_guarded(settings)
        require_tellable(settings)
        require_free(settings.port, settings.host, setting="--http")
        require_store(settings.store)
        find_java()
        jar_paths("spark", say)

    def run(self) -> None:
        """Start everything and wait until it is to stop."""
        settings, declared = self._settings, self._load_checked()
        _go_back(declared, settings)
        needed, others = parts_of(settings, declared)
        for part in (*([] if self._broker is None else [BROKER]), *needed, *others):
            self._supervisor.plan(part, AFFECTS[part])
        self._reporter = PartReporter(declared.name, broker_of(settings), settings.state, self._supervisor.states)
        self._reporter.start()
        if not self._start_broker() or not self._write_plan(declared):
            return
        _tell_parts(settings)
        self._start(needed)
        readiness = Readiness(door_of(settings), partial(self._start, others))
        self._supervisor.watch(self._stop, settings.limit_s, readiness)

    def stop(self) -> None:
        """Stop every part; one that was never started too, for it may hold its folder."""
        if self._reporter is not None:
            self._reporter.stop()
        self._supervisor.stop()
        if self._broker is not None:
            self._broker.stop()

    def _load_checked(self) -> App:
        """The app, refused before anything is written; one with a registry of its own needs that to be loaded."""
        if self._registry is None:
            declared = load_app(self._file)
            require_possible(self._file, declared, self._settings)
            self._claim_folders()
            return declared
        self._claim_folders()
        declared = self._load_with_registry(self._registry)
        require_possible(self._file, declared, self._settings)
        return declared

    def _claim_folders(self) -> None:
        """Refuse a state folder in use, and taken ports of what is started here."""
        if (opened := make_private_folder(self._settings.state)) is not None:
            say(opened)
        for server in (self._registry, self._broker):
            if server is not None:
                server.require_startable()

    def _load_with_registry(self, registry: EmbeddedRegistry) -> App:
        """The app; declarations are refused before its own registry starts, and are then told their schemas by it."""
        if self._file.endswith(".py"):  # a module is imported once
            with suppress(NoSubject), asked_for(self._settings.state):
                load_app(self._file)
        say(f"starting the schema registry: registry={registry.url!r}")
        self._started(self._supervisor.start(REGISTRY, registry, AFFECTS[REGISTRY]))
        return load_app(self._file)

    def _start_broker(self) -> bool:
        """Start the broker and wait for it; False where it is to stop meanwhile."""
        if self._broker is None:
            return True
        say(f"starting the broker on 127.0.0.1:{self._settings.broker_port}")
        return self._started(self._supervisor.start(BROKER, self._broker, AFFECTS[BROKER]))

    def _started(self, keeper: Keeper) -> bool:
        """Wait until a part has started, however often that is tried; False where it is to stop meanwhile."""
        while not keeper.has_started.wait(LOOK_SECONDS):
            if self._stop.is_set():
                return False
        return True

    def _write_plan(self, declared: App) -> bool:
        """Create topics and write down what runs; a broker of our own that ends meanwhile is waited for."""
        while not self._stop.is_set():
            try:
                write_plan(declared, self._settings)
            except BrokerUnreachable as away:
                if self._broker is None:
                    raise
                say(f"waiting for the broker: {away}")
                self._stop.wait(ASK_SECONDS)
            else:
                return True
        return False

    def _start(self, parts: Sequence[str]) -> None:
        logs = self._settings.state / "logs"
        say(f"starting {', '.join(parts)}; their logs are in {logs}")
        for part in parts:
            command = command_of(self._file, part, self._settings)
            self._supervisor.start(part, ProcessPart(command, logs / f"{part}.log"), AFFECTS[part])


def say(line: str) -> None:
    """One line of progress."""
    click.echo(f"headrace: {line}")


def require_possible(file: str, app: App, settings: Settings) -> None:
    """Refuse before anything starts what the declarations, the drivers or the kept state do not allow."""
    require_startable(file, app, settings)
    if is_captured(app):
        jar_paths("connect", say)
    require_schemas(app, say)
    lake = lake_of(app, settings)
    for problem in () if lake is None else require_fitting(lake):
        say(problem)


def _go_back(app: App, settings: Settings) -> None:
    if (before := go_back(app, settings)) is not None:
        say(f"gone back to savepoint {settings.savepoint}; what was kept until now is savepoint {before}")


def write_plan(app: App, settings: Settings) -> None:
    """Claim and create the topics of an app, and write down what now runs."""
    claim_all(app, settings)
    for missing in missing_outcomes(app, settings):
        say(missing)
    found = ensure_topics(broker_of(settings), app.streams, app.views, app.models)
    for warning in found.warnings:
        say(warning)
    planned = plan_on_state(app, settings.state, settings.rebuild, found.partitions, settings.since_us)
    for plan in planned.generations:
        remember(plan, settings.state)
        for change in plan.changes:
            say(f"{plan.stream.name}: {change}")
    for run in planned.runs:
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
