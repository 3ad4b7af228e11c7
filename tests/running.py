"""Runs a whole Headrace as a user does: `headrace up`, in its own processes."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from headrace.embedded_servers.ports import HOST, free_port
from tests.waiting import SOCKET_S, patiently, wait_until

READY_LIMIT_S = 900  # a busy machine starts an app in minutes
STOP_LIMIT_S = 90
JAVA = {
    "broker": "kafka.Kafka",
    "spark": "org.apache.spark.deploy.SparkSubmit",
    "debezium": "org.apache.kafka.connect.cli.ConnectDistributed",
}
_SAMPLE = re.compile(r"(\w+)(?:\{([^}]*)\})? (\S+)")


class Running:
    """Runs `headrace up APP` on free ports; stops it and everything it started at the end."""

    def __init__(self, app: Path, state: Path, *flags: str, python: str = sys.executable) -> None:
        self.app, self.state, self.flags, self.python = app, state, flags, python
        self.http_port, self.broker_port = free_port(), free_port()
        self.output = state / "up.out"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def broker(self) -> str:
        return f"{HOST}:{self.broker_port}"

    @property
    def pid(self) -> int:
        """The pid of `headrace up`."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self.stop()

    def start(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        command = [self.python, "-m", "headrace", "up", str(self.app), "--state", str(self.state)]
        ports = ["--http", f"{HOST}:{self.http_port}", "--broker-port", str(self.broker_port)]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *ports, *self.flags], stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait_until_ready(self) -> Self:
        wait_until(lambda: self.ready() or self.ended(), READY_LIMIT_S, f"{self.app} to be ready", self.said)
        assert not self.ended(), self.said()
        return self

    def ready(self) -> bool:
        return self._status("/v2/health/ready") == 200

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def said(self) -> str:
        logs = [self.output, *sorted((self.state / "logs").glob("*.log"))]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs if log.exists())

    def stop(self) -> int | None:
        """Stop it as Ctrl-C does; returns its exit code."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(patiently(STOP_LIMIT_S))
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                raise
        return self._process.returncode

    def features(self, view: str, keys: Sequence[Any], at: str | int | None = None) -> list[dict[str, Any]]:
        """The rows of a view; fails with the server's error."""
        body = {"keys": list(keys), **({} if at is None else {"at": at})}
        status, answer = self._ask("POST", f"/features/{view}", json.dumps(body))
        assert status == 200, answer
        rows: list[dict[str, Any]] = json.loads(answer)["rows"]
        return rows

    def predict(self, model: str, event: dict[str, Any], include: bool = False) -> dict[str, Any]:
        """The server's prediction; fails with the server's error."""
        status, answer = self._ask("POST", f"/predict/{model}?include={str(include).lower()}", json.dumps(event))
        assert status == 200, answer
        prediction: dict[str, Any] = json.loads(answer)
        return prediction

    def metrics(self) -> dict[tuple[str, str], float]:
        """The samples of /metrics by name and labels."""
        _, text = self._ask("GET", "/metrics")
        samples = (_SAMPLE.fullmatch(line) for line in text.splitlines())
        return {(found[1], found[2] or ""): float(found[3]) for found in samples if found}

    def events(self, stream: str) -> dict[str, int]:
        """The counts of a stream's events by fate, and of those that came in."""
        prefix = f'stream="{stream}"'
        labelled = {
            labels: value for (name, labels), value in self.metrics().items() if name == "headrace_events_total"
        }
        fates = ("in", "clean", "late", "dead", "dropped")
        return {
            fate: int(value)
            for fate in fates
            for labels, value in labelled.items()
            if prefix in labels and f'fate="{fate}"' in labels
        }

    def pid_of(self, part: str) -> int | None:
        """The pid of a part: broker, serve, stream, lake, apply; or of Java: the stream's Spark, or Debezium."""
        words = _words(part)
        above = self.pid_of("stream") if part == "spark" else self._process and self._process.pid
        ours = descendants(above) if above else []
        return next((pid for pid in ours if words in _command(pid)), None)

    def processes_of(self, parts: Sequence[str]) -> dict[str, list[int]]:
        """The pids of each running part and of its descendants, from one scan of /proc."""
        children = _children()
        commands = {pid: _command(pid) for pid in children.get(self.pid, [])}
        mains = {part: [pid for pid, command in commands.items() if _words(part) in command] for part in parts}
        return {part: [main, *_below(main, children)] for part, found in mains.items() for main in found[:1]}

    def kill(self, part: str) -> int:
        """Kill a part with SIGKILL, once it runs; returns its pid."""
        killed: list[int] = []

        def is_killed() -> bool:
            if (pid := self.pid_of(part)) is not None:
                with suppress(ProcessLookupError):  # it has just ended: kill its successor
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            return bool(killed)

        wait_until(is_killed, 120, f"the process of {part}", self.said)
        return killed[0]

    def _status(self, path: str) -> int | None:
        try:
            return self._ask("GET", path)[0]
        except (OSError, http.client.HTTPException):
            return None

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=SOCKET_S)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def descendants(pid: int) -> list[int]:
    """All descendants of a process."""
    return _below(pid, _children())


def _children() -> dict[int, list[int]]:
    """The child processes of each process."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    return children


def _below(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _words(part: str) -> str:
    """A text that identifies the command line of a part."""
    return JAVA.get(part, f"\0{part}\0")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
