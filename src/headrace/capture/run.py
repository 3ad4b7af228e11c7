"""`headrace run APP connect`: Connect beside the log, one connector a captured table, watched and mended."""

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.capture.connector import config_of, variable_of
from headrace.capture.database import Database, database_of
from headrace.capture.errors import DatabaseAway
from headrace.capture.read_so_far import begin_again_where_needed
from headrace.capture.taking_back import Truncations
from headrace.declare.app import App
from headrace.declare.changes import Changes
from headrace.errors import HeadraceError
from headrace.local.connect import Connect
from headrace.log.follow import Follower
from headrace.log.topics import ensure_topics

LOGGER = logging.getLogger("headrace.capture")
LOOK_SECONDS = 1.0
RESTART_SECONDS = 2.0
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
    ensure_topics(broker, [database.changes for database in databases], app.views)
    passwords = {variable_of(database.changes): database.password for database in databases}
    connect = Connect(app.name, broker, state, passwords)
    connect.hold()
    try:
        if not _prepared(app, broker, databases, stop):
            return
        connect.start()
        _configure(connect, app, databases)
        names = [database.changes.name for database in databases]
        truncations = Truncations(broker, [database.changes for database in databases])
        with Follower(broker, names, truncations.hear, patient=True) as follower:
            Watch(connect, names, follower).until(stop)
    finally:
        connect.stop()


def _prepared(app: App, broker: str, databases: Sequence[Database], stop: threading.Event) -> bool:
    """Wait until every database can be captured; False where we are stopped before."""
    waiting, said = list(databases), ""
    while waiting:
        try:
            waiting[0].require_capturable()
            begin_again_where_needed(app.name, broker, waiting[0])
            waiting.pop(0)
        except DatabaseAway as away:
            if str(away) != said:
                LOGGER.warning("%s It is waited for.", away)
            said = str(away)
            if stop.wait(LOOK_SECONDS):
                return False
    return True


def _configure(connect: Connect, app: App, databases: Sequence[Database]) -> None:
    """Give Connect the connectors that are declared, and take from it those that are not any more."""
    wanted = {database.changes.name: config_of(app.name, database) for database in databases}
    for name in connect.ask("GET", "/connectors"):
        if name not in wanted:
            LOGGER.warning("%s is captured no more; `headrace changes APP ls` tells of the slot it leaves", name)
            connect.ask("DELETE", f"/connectors/{name}")
    for name, config in wanted.items():
        if connect.ask("GET", f"/connectors/{name}/config") != config | {"name": name}:
            connect.ask("PUT", f"/connectors/{name}/config", config)


class Watch:
    """Looks at connectors: one that has failed is started again, and what is wrong with it is told once."""

    def __init__(self, connect: Connect, names: Sequence[str], follower: Follower) -> None:
        self._connect, self._names, self._follower = connect, names, follower
        self._restart_at = dict.fromkeys(names, 0.0)
        self._said = dict.fromkeys(names, "")

    def until(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            self._connect.check()
            self._follower.raise_failure()
            for name in self._names:
                try:
                    self._look(name)
                except HeadraceError as passing:  # it rebalances, or is about to end
                    LOGGER.debug("%s: %s", name, passing)

    def _look(self, name: str) -> None:
        status = self._connect.ask("GET", f"/connectors/{name}/status")
        failed = [] if status is None else [one for one in _states(status) if one["state"] == "FAILED"]
        self._tell(name, _reason(failed))
        if failed and time.monotonic() >= self._restart_at[name]:
            self._restart_at[name] = time.monotonic() + RESTART_SECONDS
            self._connect.ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    def _tell(self, name: str, reason: str) -> None:
        if reason != self._said[name]:
            self._said[name] = reason
            if reason:
                LOGGER.warning("%s is not captured now, and tried again: %s", name, reason)
            else:
                LOGGER.info("%s is captured again", name)


def _states(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [status["connector"], *status["tasks"]]


def _reason(failed: Sequence[dict[str, Any]]) -> str:
    """Why it has failed: of what Java tells, the innermost cause."""
    told = [line for one in failed for line in str(one.get("trace", "")).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    return (causes or told or ([""] if not failed else ["it does not say why"]))[-1 if causes else 0][:SHOWN_REASON]
