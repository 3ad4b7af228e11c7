"""Runs `headrace up` as a child process: ports, log lines, readiness and shutdown."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from api import Api, NotReady

HOST = "127.0.0.1"
READY_SECONDS = 600.0  # the very first start may download jars
STOP_SECONDS = 60.0


class ServerFailed(Exception):
    """`headrace up` ended, or did not become ready; its last lines say why."""


@dataclass(frozen=True)
class Place:
    """The ports and the state folder of a server."""

    http_port: int
    broker_port: int
    state: Path
    given_broker: str | None = None  # the user's broker instead of an embedded one

    @property
    def http(self) -> str:
        return f"{HOST}:{self.http_port}"

    @property
    def url(self) -> str:
        return f"http://{self.http}"

    @property
    def broker(self) -> str:
        return self.given_broker or f"{HOST}:{self.broker_port}"


class Server:
    """A running `headrace up`; leaving the block stops it with SIGINT."""

    def __init__(self, app: Path, place: Place) -> None:
        self.place = place
        self.log = place.state / "up.log"
        self._told = 0
        place.state.mkdir(parents=True, exist_ok=True)
        command = [
            str(Path(sys.executable).with_name("headrace")), "up", str(app),
            "--http", place.http, "--broker-port", str(place.broker_port), "--state", str(place.state),
            *(["--broker", place.given_broker] if place.given_broker else []),
        ]  # fmt: skip
        with self.log.open("wb") as log:
            # A separate session: only the demo receives Ctrl-C; it then shuts the server down gracefully.
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_ready(self, say: Callable[[str], None], timeout: float = READY_SECONDS) -> None:
        """Return once the server is ready; until then, pass each new line of its log to `say`."""
        api, deadline = Api(self.place.http), time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.require_alive()
            for line in self.new_lines():
                say(line)
            with contextlib.suppress(NotReady):
                return api.require_ready()
            time.sleep(0.25)
        raise ServerFailed(f"headrace up was not ready within {timeout:g} s.\n{self.tail()}")

    def require_alive(self) -> None:
        code = self._process.poll()
        if code is not None:
            raise ServerFailed(f"headrace up ended with exit code {code}. Its last lines:\n{self.tail()}")

    def new_lines(self) -> list[str]:
        """Complete lines of the server's log that were not returned before."""
        text = self.log.read_text(errors="replace")[self._told :]
        whole = text[: text.rfind("\n") + 1]
        self._told += len(whole)
        return [line for line in whole.splitlines() if line.strip()]

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> int:
        """Shut the server down gracefully, or kill it after STOP_SECONDS; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def port_near(wanted: int) -> int:
    """The wanted port if it is free, or else another free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerFailed(f"no free port on {HOST}")
