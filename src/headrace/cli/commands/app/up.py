"""`headrace up APP`: runs everything on this machine; Ctrl-C stops it cleanly, and a restart resumes from there."""

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

from headrace.declare.app import App, load_app
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.jars import jar_paths
from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import require_free
from headrace.embedded_servers.schema_registry import EmbeddedSchemaRegistry
from headrace.kafka.client.connection_diagnosis import BrokerUnreachable
from headrace.kafka.schema_registry.schema_lookup import SubjectMissing, use_registry_lookup
from headrace.kafka.topics import ensure_topics
from headrace.lake.lake import require_compatible_tables
from headrace.online_store.registry import require_store
from headrace.runtime.configuration.click_options import command_settings
from headrace.runtime.configuration.part_arguments import ONE_TIME_VARIABLES, secret_variables
from headrace.runtime.configuration.settings_parser import parse_settings
from headrace.runtime.part_runner import (
    broker_address,
    has_captured_tables,
    require_valid_endpoints,
    restore_requested_savepoint,
    stop_on_signals,
)
from headrace.runtime.parts.app_parts import BROKER, OUTAGE_EFFECTS, REGISTRY, list_parts, part_command
from headrace.runtime.parts.lake_part import build_lake, missing_outcome_warnings
from headrace.runtime.parts.part_reporter import PartReporter
from headrace.runtime.preflight import require_startable
from headrace.runtime.server_access import internal_client, require_secure_server
from headrace.runtime.settings import Settings
from headrace.runtime.stream_schemas import require_compatible_schemas
from headrace.runtime.supervisor import PartSupervisor, ProcessPart, Supervisor
from headrace.runtime.topic_claims import claim_app_topics
from headrace.server.auth.internal_client import TOKEN_VARIABLE, InternalClient
from headrace.spark.checkpoints.state_plan import plan_state
from headrace.spark.stateful.operation_versions import begin_operation_version
from headrace.spark.tiles.query_versions import save_query_versions
from headrace.storage.private_folder import make_private_folder

POLL_SECONDS = 0.2
RETRY_SECONDS = 1.0
READY_TIMEOUT_SECONDS = 60.0


@click.command()
@click.argument("app")
@command_settings("up")
def up(app: str, **flags: Any) -> None:
    """Run APP on this machine: broker, Spark queries, store and HTTP server."""
    settings = parse_settings(flags)
    runner = LocalRunner(app, settings, stop_on_signals())
    try:
        runner.require_startable()
        runner.run()
    finally:
        runner.stop()
    print_progress("stopped; a restart resumes from here")


class LocalRunner:
    """One run of `up`: permanent errors are refused before anything starts; later failures lead to restarts."""

    def __init__(self, app_path: str, settings: Settings, stop: threading.Event) -> None:
        self._app_path, self._settings, self._stop = app_path, settings, stop
        self._supervisor = Supervisor(print_progress)
        self._reporter: PartReporter | None = None
        self._broker = None if settings.broker else EmbeddedBroker(settings.state, settings.broker_port, print_progress)
        self._registry = (
            EmbeddedSchemaRegistry(settings.state, settings.registry_port, print_progress)
            if settings.starts_registry
            else None
        )

    def require_startable(self) -> None:
        """Refuse errors that no restart can fix: settings, a taken port, missing Java or jars."""
        settings = self._settings
        require_secure_server(settings)
        require_valid_endpoints(settings)
        require_free(settings.port, settings.host, setting="--http")
        require_store(settings.store)
        find_java()
        jar_paths("spark", print_progress)

    def run(self) -> None:
        """Start everything and wait until a stop is requested."""
        settings, loaded_app = self._settings, self._load_valid_app()
        _restore_savepoint(loaded_app, settings)
        required_parts, optional_parts = list_parts(settings, loaded_app)
        for part in (*([] if self._broker is None else [BROKER]), *required_parts, *optional_parts):
            self._supervisor.plan(part, OUTAGE_EFFECTS[part])
        self._reporter = PartReporter(
            loaded_app.name, broker_address(settings), settings.state, self._supervisor.states
        )
        self._reporter.start()
        if not self._start_broker() or not self._write_plan(loaded_app):
            return
        _set_part_environment(settings)
        self._start_parts(required_parts)
        readiness = ReadinessMonitor(internal_client(settings), partial(self._start_parts, optional_parts))
        self._supervisor.watch(self._stop, settings.limit_s, readiness)

    def stop(self) -> None:
        """Stop every part; also one that was never started, because it may hold its folder."""
        if self._reporter is not None:
            self._reporter.stop()
        self._supervisor.stop()
        if self._broker is not None:
            self._broker.stop()

    def _load_valid_app(self) -> App:
        """Load and validate the app before anything is written; an embedded schema registry starts before that."""
        if self._registry is None:
            loaded_app = load_app(self._app_path)
            require_valid_app(self._app_path, loaded_app, self._settings)
            self._claim_state_folder()
            return loaded_app
        self._claim_state_folder()
        loaded_app = self._load_with_registry(self._registry)
        require_valid_app(self._app_path, loaded_app, self._settings)
        return loaded_app

    def _claim_state_folder(self) -> None:
        """Refuse a state folder in use, and taken ports of embedded servers."""
        if (warning := make_private_folder(self._settings.state)) is not None:
            print_progress(warning)
        for server in (self._registry, self._broker):
            if server is not None:
                server.require_startable()

    def _load_with_registry(self, registry: EmbeddedSchemaRegistry) -> App:
        """Load the app: validate its declarations, start its registry, and load it with the registered schemas."""
        if self._app_path.endswith(".py"):  # a module is imported only once
            with suppress(SubjectMissing), use_registry_lookup(self._settings.state):
                load_app(self._app_path)
        print_progress(f"starting the schema registry: registry={registry.url!r}")
        self._wait_until_started(self._supervisor.start(REGISTRY, registry, OUTAGE_EFFECTS[REGISTRY]))
        return load_app(self._app_path)

    def _start_broker(self) -> bool:
        """Start the broker and wait for it; False if a stop is requested meanwhile."""
        if self._broker is None:
            return True
        print_progress(f"starting the broker on 127.0.0.1:{self._settings.broker_port}")
        return self._wait_until_started(self._supervisor.start(BROKER, self._broker, OUTAGE_EFFECTS[BROKER]))

    def _wait_until_started(self, keeper: PartSupervisor) -> bool:
        """Wait until a part has started, after any number of attempts; False if a stop is requested meanwhile."""
        while not keeper.has_started.wait(POLL_SECONDS):
            if self._stop.is_set():
                return False
        return True

    def _write_plan(self, loaded_app: App) -> bool:
        """Create topics and record what runs; retry while an embedded broker is unreachable."""
        while not self._stop.is_set():
            try:
                write_plan(loaded_app, self._settings)
            except BrokerUnreachable as error:
                if self._broker is None:
                    raise
                print_progress(f"waiting for the broker: {error}")
                self._stop.wait(RETRY_SECONDS)
            else:
                return True
        return False

    def _start_parts(self, parts: Sequence[str]) -> None:
        log_folder = self._settings.state / "logs"
        print_progress(f"starting {', '.join(parts)}; their logs are in {log_folder}")
        for part in parts:
            command = part_command(self._app_path, part, self._settings)
            self._supervisor.start(part, ProcessPart(command, log_folder / f"{part}.log"), OUTAGE_EFFECTS[part])


def print_progress(line: str) -> None:
    """One line of progress."""
    click.echo(f"headrace: {line}")


def require_valid_app(app_path: str, app: App, settings: Settings) -> None:
    """Refuse, before anything starts, what the declarations, the drivers or the existing state do not allow."""
    require_startable(app_path, app, settings)
    if has_captured_tables(app):
        jar_paths("connect", print_progress)
    require_compatible_schemas(app, print_progress)
    lake = build_lake(app, settings)
    for problem in () if lake is None else require_compatible_tables(lake):
        print_progress(problem)


def _restore_savepoint(app: App, settings: Settings) -> None:
    if (previous_savepoint := restore_requested_savepoint(app, settings)) is not None:
        print_progress(
            f"restored savepoint {settings.savepoint}; the state until now is savepoint {previous_savepoint}"
        )


def write_plan(app: App, settings: Settings) -> None:
    """Validate and create the topics of an app, and record what now runs."""
    claim_app_topics(app, settings)
    for message in missing_outcome_warnings(app, settings):
        print_progress(message)
    topics = ensure_topics(broker_address(settings), app.streams, app.views, app.models)
    for warning in topics.warnings:
        print_progress(warning)
    state_plan = plan_state(app, settings.state, settings.rebuild, topics.stream_partitions, settings.since_us)
    for plan in state_plan.query_versions:
        save_query_versions(plan, settings.state)
        for change in plan.changes:
            print_progress(f"{plan.stream.name}: {change}")
    for run in state_plan.operation_versions:
        begin_operation_version(app, run, settings.state, broker_address(settings))
        for change in run.changes:
            print_progress(f"{run.operation.name}: {change}")


def _set_part_environment(settings: Settings) -> None:
    """Set the environment of the processes of parts."""
    os.environ |= secret_variables(settings)
    os.environ.pop(TOKEN_VARIABLE, None)  # a token is for users: parts share the state folder and need none
    for variable in ONE_TIME_VARIABLES:  # done once above, and not again whenever a part starts
        os.environ.pop(variable, None)


class ReadinessMonitor:
    """Prints once what is still missing, and then that the app is ready.

    Optional parts start then, because a start uses all cores; or after a timeout, because the alert watcher must
    report an app that does not become ready.
    """

    def __init__(self, client: InternalClient, start_others: Callable[[], None]) -> None:
        self._client, self._start_others = client, start_others
        self._last_line, self._calls, self._started_at = "", 0, time.monotonic()
        self._is_ready = self._has_started_others = False

    def __call__(self) -> None:
        self._calls += 1
        if not self._is_ready and self._calls % 5 == 0:
            self._check()
        is_due = self._is_ready or time.monotonic() - self._started_at > READY_TIMEOUT_SECONDS
        if is_due and not self._has_started_others:
            self._has_started_others = True
            self._start_others()

    def _check(self) -> None:
        missing = missing_parts(self._client)
        if missing is None:
            return
        line = f"waiting: {'; '.join(missing)}" if missing else f"ready at {self._client.url}"
        if line != self._last_line:
            print_progress(line)
            self._last_line = line
        self._is_ready = not missing


def missing_parts(client: InternalClient) -> list[str] | None:
    """What a server says it is missing; empty once it is ready, None while no server answers."""
    try:
        with client.get("/v2/health/ready", RETRY_SECONDS):
            return []
    except urllib.error.HTTPError as response:
        return list(json.loads(response.read()).get("missing", ["the server does not say what"]))
    except OSError:
        return None
