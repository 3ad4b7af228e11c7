"""Runs every command of Headrace against a running app: each succeeds, and none prints a traceback."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.declare.app import App
from tests.apps.factors import Row
from tests.running import Running

LIMIT_S = 300


@dataclass(frozen=True)
class Asked:
    """A command, and the exit codes that it may end with."""

    words: tuple[str, ...]
    codes: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        return " ".join(self.words[:3])


def every_command(row: Row, app: App, running: Running, folder: Path) -> list[Asked]:
    """The commands to run on an app: all but those that start it."""
    file, state, broker = str(running.app), ("--state", str(running.state)), ("--broker", running.broker)
    http, lake = ("--http", f"127.0.0.1:{running.http_port}"), ("--lake", str(folder / "lake"))
    stream, view = app.streams[0], app.views[0]
    asked = [
        Asked(("status", file, *state, *http, *broker)),
        Asked(("plan", file, *state)),
        Asked(("plan", file, *state, "--json")),
        Asked(("hot", file, *http)),
        Asked(("alerts", file, "ls", *broker)),
        Asked(("dead", file, "ls", *broker)),
        Asked(("dead", file, "show", stream.name, *broker, "--limit", "3")),
        Asked(("trace", file, f"{stream.name}-0@0", *broker)),
        Asked(("state", file, *state)),
        Asked(("savepoint", file, "first", *state)),
        Asked(("savepoint", file, "ls", *state)),
        Asked(("export", file, "grafana")),
        Asked(("export", file, "alerts")),
        Asked(("export", file, "metrics")),
        Asked(("sql", "show tables", *http)),
        Asked(("doctor", *http, *broker, *state), (0, 1)),
    ]
    asked += _of_lake(row, app, file, state, lake, http)
    asked += [Asked(("parked", file, "ls", *broker))] if app.sinks else []
    asked += [Asked(("outbox", file, "--status"))] if app.outboxes else []
    asked += [Asked(("changes", "ls", file), (0, 2))] if row["source"] == "captured" else []
    for model in app.models:
        asked += [Asked(("models", "ls", file, *state)), Asked(("quality", file, model.name, *broker), (0, 1))]
        if row["lake"] != "off":
            asked.append(Asked(("drift", file, model.name, *state, *lake), (0, 1)))
        if row["model"] == "train":
            source = lake if row["lake"] != "off" else broker
            asked.append(Asked(("train", file, model.name, *state, *source), (0, 1)))
    # A view of rows cannot be checked, as the command says; without a request there is nothing to compare.
    asked.append(Asked(("check", file, view.name, *broker), (0, 1)))
    return asked


def _of_lake(
    row: Row, app: App, file: str, state: tuple[str, ...], lake: tuple[str, ...], http: tuple[str, ...]
) -> Iterator[Asked]:
    stream = app.streams[0].name
    if row["lake"] != "off":
        yield Asked(("sql", f'select count(*) from silver."{stream}"', *http))
        yield Asked(("sql", f'select count(*) from silver."{stream}"', "--http", "127.0.0.1:9", *lake))
        yield Asked(("lateness", file, stream, *state, *lake), (0, 1))


def complaint_of(asked: Asked) -> str:
    """What is wrong with how a command answered; empty where nothing is."""
    try:
        said = answer_of(asked)
    except subprocess.TimeoutExpired:
        return f"headrace {asked} has not answered within {LIMIT_S} s"
    told = (said.stdout + said.stderr)[-2000:]
    if said.returncode not in asked.codes:
        return f"headrace {' '.join(asked.words)} ended with {said.returncode}: {told}"
    return f"headrace {' '.join(asked.words)} shows a traceback: {told}" if "Traceback" in told else ""


def answer_of(asked: Asked) -> subprocess.CompletedProcess[str]:
    """How a command ends, and what it prints."""
    command = [sys.executable, "-m", "headrace", *asked.words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
