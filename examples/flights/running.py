"""Runs `headrace up` for the examples: on free ports, with its own lake and state, and always stopped at the end."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headrace.embedded_servers.ports import HOST, free_port

LIMIT_SECONDS = 1800
STOP_SECONDS = 90


class Place(NamedTuple):
    """The URL and the broker of a running app."""

    url: str
    broker: str


@contextmanager
def running(app: Path, folder: Path, *flags: str) -> Iterator[Place]:
    """Run an app for the length of the block, once it is ready; its lake and its state are in the folder."""
    http, broker = f"{HOST}:{free_port()}", free_port()
    command = [sys.executable, "-m", "headrace", "up", str(app), "--http", http, "--broker-port", str(broker)]
    folders = ["--lake", str(folder / "lake"), "--state", str(folder / "state")]
    with (folder / "up.log").open("wb") as log:
        # A separate session: only the example receives Ctrl-C; it then shuts the app down gracefully.
        up = subprocess.Popen([*command, *folders, *flags], stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(lambda: is_ready(f"http://{http}", up, folder / "up.log"), "Headrace to be ready")
        yield Place(f"http://{http}", f"{HOST}:{broker}")
    finally:
        up.terminate()
        up.wait(STOP_SECONDS)


def is_ready(url: str, up: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the app is ready; exits with its log if its process has ended."""
    if up.poll() is not None:
        raise SystemExit(
            f"headrace up ended with exit code {up.returncode}:\n{log.read_text(errors='replace')[-2000:]}"
        )
    return ask(f"{url}/v2/health/ready") is not None


def ask(url: str, body: dict[str, Any] | None = None) -> str | None:
    """The body of the response, or None if the request fails."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode() if body else None)) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return None


def metrics(url: str) -> dict[str, float]:
    """The value of each metric, by its name and labels."""
    lines = [line for line in (ask(f"{url}/metrics") or "").splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def rows_in(table: Path) -> int:
    """The number of rows of a lake table."""
    try:
        return int(DeltaTable(table).to_pyarrow_dataset().count_rows())
    except TableNotFoundError:
        return 0


def wait_for(holds: Callable[[], bool], what: str, every: float = 0.5, limit: float = LIMIT_SECONDS) -> None:
    """Wait until a condition holds; exits after `limit` seconds."""
    until = time.monotonic() + limit
    while not holds():
        if time.monotonic() > until:
            raise SystemExit(f"waited {limit:g} s for {what}")
        time.sleep(every)
