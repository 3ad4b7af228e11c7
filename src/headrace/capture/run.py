"""`headrace run APP connect`: Connect beside the log, one connector a captured table, watched and mended."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from headrace.capture.connector import config_of, variable_of
from headrace.capture.database import Database, database_of, name_of
from headrace.capture.errors import DatabaseAway
from headrace.capture.read_so_far import begin_again_where_needed
from headrace.capture.taking_back import Truncations
from headrace.declare.app import App
from headrace.declare.changes import Changes
from headrace.errors import HeadraceError
from headrace.local.connect import Connect
from headrace.log.follow import Follower
from headrace.log.produce import Producer
from headrace.log.progress import CaptureProgress, ensure_progress_topic, report
from headrace.log.retries import retry_until
from headrace.log.topics import ensure_topics

LOGGER = logging.getLogger("headrace.capture")
LOOK_SECONDS = 1.0
RESTART_SECONDS = 2.0
SLOTS_SECONDS = 10.0
SHOWN_REASON = 300


def captured(app: App) -> list[Changes]:
    """The changes of an app that we capture ourselves."""
    return [stream for stream in app.streams if isinstance(stream, Changes) and stream.source is not None]


def require_capturable(app: App) -> None:
    """Refuse a database or a table that is not set up for it; one that is away is waited for later."""
    for changes in captured(app):
        try:
            database_of(changes).require_capturable()
        except DatabaseAway as away:
            LOGGER.warning("%s It is waited for.", away)


def capture_until(app: App, broker: str, state: Path, stop: threading.Event) -> None:
    """Capture changes until `stop` is set; raises what ended Connect, and whoever supervises starts it again."""
    databases = [database_of(changes) for changes in captured(app)]
    if not databases:
        stop.wait()
        return
    prepare = partial(_ensure_topics, app, broker, databases)
    if not retry_until(prepare, stop, "Capture"):
        return
    passwords = {variable_of(database.changes): database.password for database in databases}
    connect = Connect(app.name, broker, state, passwords)
    connect.hold()
    try:
        told = Told(app.name, broker, databases)
        if not _prepared(app, broker, told, stop):
            return
        connect.start()
        _configure(connect, app, databases)
        changes = [database.changes for database in databases]
        truncations = Truncations(broker, changes)
        with Follower(broker, [one.name for one in changes], truncations.hear, patient=True) as follower:
            Watch(connect, told, follower).until(stop)
    finally:
        connect.stop()


def _ensure_topics(app: App, broker: str, databases: Sequence[Database]) -> bool:
    ensure_topics(broker, [database.changes for database in databases], app.views)
    ensure_progress_topic(broker)
    return True


class Told:
    """What is told of each captured table: in the log when it changes, and on the board every second."""

    def __init__(self, app: str, broker: str, databases: Sequence[Database]) -> None:
        self.databases, self._app = databases, app
        self._producer = Producer(broker)
        self._said = dict.fromkeys(databases, "")
        self._kept_bytes = dict.fromkeys(databases, 0)
        self._look_at = 0.0

    def tell(self, database: Database, trouble: str) -> None:
        """That a table is captured, or what keeps it from that."""
        if trouble and trouble != self._said[database]:
            LOGGER.warning("%s is not captured now, and tried again: %s", database.changes.name, trouble)
        elif self._said[database] and not trouble:
            LOGGER.info("%s is captured again", database.changes.name)
        self._said[database] = trouble
        at_us = time.time_ns() // 1000
        report(self._producer, CaptureProgress(database.changes.name, at_us, self._kept_bytes[database], trouble))

    def look(self) -> None:
        """See now and then how much of their logs the databases keep for us."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + SLOTS_SECONDS
        for database in self.databases:
            with suppress(HeadraceError):  # it is away: Debezium says so
                own = name_of(self._app, database.changes)
                self._kept_bytes[database] = sum(
                    slot.kept_bytes for slot in database.slots(self._app) if slot.name == own
                )


def _prepared(app: App, broker: str, told: Told, stop: threading.Event) -> bool:
    """Wait until every database can be captured; False where we are stopped before."""
    waiting = list(told.databases)
    while waiting:
        try:
            waiting[0].require_capturable()
            begin_again_where_needed(app.name, broker, waiting[0])
            waiting.pop(0)
        except DatabaseAway as away:
            told.tell(waiting[0], str(away))
            if stop.wait(LOOK_SECONDS):
                return False
    return True


def _configure(connect: Connect, app: App, databases: Sequence[Database]) -> None:
    """Give Connect the connectors that are declared, and take from it those that are not any more."""
    wanted = {database.changes.name: config_of(app.name, database) for database in databases}
    for name in connect.ask("GET", "/connectors"):
        if name not in wanted:
            LOGGER.warning("%s is captured no more; `headrace changes ls APP` tells of the slot it leaves", name)
            connect.ask("DELETE", f"/connectors/{name}")
    for name, config in wanted.items():
        if connect.ask("GET", f"/connectors/{name}/config") != config | {"name": name}:
            connect.ask("PUT", f"/connectors/{name}/config", config)


class Watch:
    """Looks at connectors: one that has failed is started again, and what is wrong with it is told."""

    def __init__(self, connect: Connect, told: Told, follower: Follower) -> None:
        self._connect, self._told, self._follower = connect, told, follower
        self._restart_at = dict.fromkeys(told.databases, 0.0)

    def until(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            self._connect.check()
            self._follower.raise_failure()
            self._told.look()
            for database in self._told.databases:
                try:
                    self._look(database)
                except HeadraceError as passing:  # it rebalances, or is about to end
                    LOGGER.debug("%s: %s", database.changes.name, passing)

    def _look(self, database: Database) -> None:
        name = database.changes.name
        status = self._connect.ask("GET", f"/connectors/{name}/status")
        failed = [] if status is None else [one for one in _states(status) if one["state"] == "FAILED"]
        self._told.tell(database, _reason(failed))
        if failed and time.monotonic() >= self._restart_at[database]:
            self._restart_at[database] = time.monotonic() + RESTART_SECONDS
            self._connect.ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")


def _states(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [status["connector"], *status["tasks"]]


def _reason(failed: Sequence[dict[str, Any]]) -> str:
    """Why it has failed: of what Java tells, the innermost cause."""
    told = [line for one in failed for line in str(one.get("trace", "")).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    return (causes or told or ([""] if not failed else ["it does not say why"]))[-1 if causes else 0][:SHOWN_REASON]
