"""`headrace run APP connect`: runs Kafka Connect with one connector per captured table, and restarts failed ones."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from headrace.connectors.cdc.connector_config import connector_config, password_variable
from headrace.connectors.cdc.connector_offsets import restart_incomplete_snapshot
from headrace.connectors.cdc.errors import DatabaseUnavailable
from headrace.connectors.cdc.source_database import SourceDatabase, slot_name, source_database
from headrace.connectors.cdc.truncate_handling import TruncateHandler
from headrace.declare.app import App
from headrace.declare.streams.change_capture import Changes
from headrace.embedded_servers.kafka_connect import EmbeddedKafkaConnect
from headrace.errors import HeadraceError
from headrace.kafka.client.startup_retries import retry_until_stopped
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import ensure_progress_topic, publish_progress
from headrace.kafka.status.reports.connectors import CaptureProgress
from headrace.kafka.topics import ensure_topics

LOGGER = logging.getLogger("headrace.capture")
CHECK_INTERVAL_SECONDS = 1.0
RESTART_INTERVAL_SECONDS = 2.0
SLOT_CHECK_SECONDS = 10.0
MAX_REASON_LENGTH = 300


def captured_streams(app: App) -> list[Changes]:
    """The change streams of an app that Headrace captures itself."""
    return [stream for stream in app.streams if isinstance(stream, Changes) and stream.source is not None]


def require_capturable(app: App) -> None:
    """Reject a database or a table that is not set up for capture; log a database that is unavailable."""
    for changes in captured_streams(app):
        try:
            source_database(changes).require_capturable()
        except DatabaseUnavailable as error:
            LOGGER.warning("%s Capture waits for it.", error)


def run_capture(app: App, broker: str, state: Path, stop: threading.Event) -> None:
    """Capture changes until `stop` is set; raises the error that ended Connect, so that the supervisor restarts it."""
    databases = [source_database(changes) for changes in captured_streams(app)]
    if not databases:
        stop.wait()
        return
    prepare = partial(_ensure_topics, app, broker, databases)
    if not retry_until_stopped(prepare, stop, "Capture"):
        return
    passwords = {password_variable(database.changes): database.password for database in databases}
    connect = EmbeddedKafkaConnect(app.name, broker, state, passwords)
    connect.lock_folder()
    try:
        reporter = CaptureReporter(app.name, broker, databases)
        if not _wait_until_capturable(app, broker, reporter, stop):
            return
        connect.start()
        _configure_connectors(connect, app, databases)
        changes = [database.changes for database in databases]
        truncate_handler = TruncateHandler(broker, changes)
        with TailingConsumer(
            broker,
            [captured_changes.name for captured_changes in changes],
            truncate_handler.handle_records,
            is_latency_tolerant=True,
        ) as consumer:
            ConnectorMonitor(connect, reporter, consumer).run_until_stopped(stop)
    finally:
        connect.stop()


def _ensure_topics(app: App, broker: str, databases: Sequence[SourceDatabase]) -> bool:
    ensure_topics(broker, [database.changes for database in databases], app.views)
    ensure_progress_topic(broker)
    return True


class CaptureReporter:
    """Reports the state of each captured table: logs its changes, and publishes a status report every second."""

    def __init__(self, app: str, broker: str, databases: Sequence[SourceDatabase]) -> None:
        self.databases, self._app = databases, app
        self._producer = Producer(broker)
        self._last_errors = dict.fromkeys(databases, "")
        self._retained_bytes = dict.fromkeys(databases, 0)
        self._check_slots_at = 0.0

    def report_state(self, database: SourceDatabase, error: str) -> None:
        """Report that a table is captured, or the error that prevents it."""
        if error and error != self._last_errors[database]:
            LOGGER.warning("Could not capture %s, retrying: %s", database.changes.name, error)
        elif self._last_errors[database] and not error:
            LOGGER.info("Resumed capture of %s", database.changes.name)
        self._last_errors[database] = error
        at_us = time.time_ns() // 1000
        publish_progress(
            self._producer, CaptureProgress(database.changes.name, at_us, self._retained_bytes[database], error)
        )

    def update_retained_bytes(self) -> None:
        """Read every 10 seconds how many bytes of WAL the databases retain for our slots."""
        if time.monotonic() < self._check_slots_at:
            return
        self._check_slots_at = time.monotonic() + SLOT_CHECK_SECONDS
        for database in self.databases:
            with suppress(HeadraceError):  # the database is unavailable: Debezium reports it
                own_slot_name = slot_name(self._app, database.changes)
                self._retained_bytes[database] = sum(
                    slot.retained_bytes for slot in database.list_slots(self._app) if slot.name == own_slot_name
                )


def _wait_until_capturable(app: App, broker: str, reporter: CaptureReporter, stop: threading.Event) -> bool:
    """Wait until every database can be captured; False if `stop` is set first."""
    waiting_databases = list(reporter.databases)
    while waiting_databases:
        try:
            waiting_databases[0].require_capturable()
            restart_incomplete_snapshot(app.name, broker, waiting_databases[0])
            waiting_databases.pop(0)
        except DatabaseUnavailable as error:
            reporter.report_state(waiting_databases[0], str(error))
            if stop.wait(CHECK_INTERVAL_SECONDS):
                return False
    return True


def _configure_connectors(connect: EmbeddedKafkaConnect, app: App, databases: Sequence[SourceDatabase]) -> None:
    """Create or update the declared connectors, and delete those that are no longer declared."""
    declared_configs = {database.changes.name: connector_config(app.name, database) for database in databases}
    for name in connect.request("GET", "/connectors"):
        if name not in declared_configs:
            LOGGER.warning("Stopped capture of %s; `headrace changes ls APP` lists the slot it leaves", name)
            connect.request("DELETE", f"/connectors/{name}")
    for name, config in declared_configs.items():
        if connect.request("GET", f"/connectors/{name}/config") != config | {"name": name}:
            connect.request("PUT", f"/connectors/{name}/config", config)


class ConnectorMonitor:
    """Polls the connectors, reports the errors of failed ones, and restarts them."""

    def __init__(self, connect: EmbeddedKafkaConnect, reporter: CaptureReporter, consumer: TailingConsumer) -> None:
        self._connect, self._reporter, self._consumer = connect, reporter, consumer
        self._restart_at = dict.fromkeys(reporter.databases, 0.0)

    def run_until_stopped(self, stop: threading.Event) -> None:
        while not stop.wait(CHECK_INTERVAL_SECONDS):
            self._connect.raise_if_ended()
            self._consumer.raise_failure()
            self._reporter.update_retained_bytes()
            for database in self._reporter.databases:
                try:
                    self._check_connector(database)
                except HeadraceError as error:  # Connect rebalances, or is about to end
                    LOGGER.debug("%s: %s", database.changes.name, error)

    def _check_connector(self, database: SourceDatabase) -> None:
        name = database.changes.name
        status = self._connect.request("GET", f"/connectors/{name}/status")
        failed_states = (
            [] if status is None else [state for state in _component_states(status) if state["state"] == "FAILED"]
        )
        self._reporter.report_state(database, _failure_reason(failed_states))
        if failed_states and time.monotonic() >= self._restart_at[database]:
            self._restart_at[database] = time.monotonic() + RESTART_INTERVAL_SECONDS
            self._connect.request("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")


def _component_states(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [status["connector"], *status["tasks"]]


def _failure_reason(failed_states: Sequence[dict[str, Any]]) -> str:
    """The innermost cause in the Java stack traces."""
    trace_lines = [line for state in failed_states for line in str(state.get("trace", "")).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in trace_lines if line.startswith("Caused by: ")]
    return (causes or trace_lines or ([""] if not failed_states else ["it does not say why"]))[-1 if causes else 0][
        :MAX_REASON_LENGTH
    ]
