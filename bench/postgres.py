"""A PostgreSQL in its own folder, run by a user other than root, as it requires."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.errors import Skipped
from bench.waiting import wait_for
from headrace.embedded_servers.child_process import ChildProcess, ProcessId
from headrace.embedded_servers.ports import HOST, free_port

NOBODY = 65534
PASSWORD = "hush-hush"


class OwnPostgres:
    """A server that can be stopped and started, with persistent data."""

    def __init__(self, *, syncs: bool = False, is_captured: bool = False) -> None:
        self._programs = _programs()
        self._folder, self._port = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir="/tmp")), free_port()
        self._settings: dict[str, Any] = {"port": self._port, "listen_addresses": HOST, "unix_socket_directories": ""}
        self._settings["fsync"] = "on" if syncs else "off"
        self._settings |= {"wal_level": "logical"} if is_captured else {}
        self.url = f"postgresql://headrace:{PASSWORD}@{HOST}:{self._port}/postgres"
        self._server: ChildProcess | None = None
        self._initialise()

    def start(self) -> None:
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *options]
        self._server = ChildProcess(_as_nobody(command), folder=Path("/tmp"), output=self._folder / "postgres.log")
        self._server.start()
        wait_for(self._accepts, 30, "PostgreSQL to answer")

    def stop(self) -> None:
        """Stop at once, with open client connections."""
        if self._server is not None and self._server.is_alive() and self._server.pid is not None:
            os.kill(self._server.pid, signal.SIGINT)
            self._server.wait(20)

    def kill(self) -> None:
        """kill -9, as a crash does."""
        if self._server is not None and self._server.is_alive():
            mine = [ProcessId.from_pid(pid) for pid in _children(self._server.pid)]
            os.kill(self._server.pid, signal.SIGKILL)
            self._server.wait(20)
            # They hold the memory they share until they have seen it.
            wait_for(lambda: not any(one is not None and one.is_alive() for one in mine), 20, "its processes to end")

    def pids(self) -> list[int]:
        """The server's process and those of its clients."""
        pid = None if self._server is None else self._server.pid
        return [] if pid is None else [pid, *_children(pid)]

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def ask(self, statement: str) -> list[Any]:
        """The result of a statement, over a new connection."""
        with import_module("psycopg").connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def _accepts(self) -> bool:
        try:
            return bool(self.ask("SELECT 1"))
        except import_module("psycopg").OperationalError:  # it is starting up
            return False

    def _initialise(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            os.chown(self._folder, NOBODY, NOBODY)
            os.chown(password, NOBODY, NOBODY)
        how = ["--no-sync", "--auth=scram-sha-256", "--username=headrace", f"--pwfile={password}", "--encoding=UTF8"]
        command = [str(self._programs / "initdb"), "-D", str(self._folder / "data"), *how, "--locale=C"]
        subprocess.run(_as_nobody(command), check=True, capture_output=True, cwd="/tmp")


@contextmanager
def own_postgres() -> Iterator[str]:
    """The URL of an empty server with its usual durability."""
    server = OwnPostgres(syncs=True)
    server.start()
    try:
        yield server.url
    finally:
        server.remove()


def _as_nobody(command: list[str]) -> list[str]:
    """The command that runs as another user; a change of user clears the parent-death signal, so it is set again."""
    if os.geteuid() != 0:
        return command
    who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--pdeathsig=INT"]
    return [str(shutil.which("setpriv")), *who, *command]


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def _programs() -> Path:
    """The folder of initdb and postgres: Debian has it beside the PATH."""
    try:
        import_module("psycopg")
    except ModuleNotFoundError:
        raise Skipped("psycopg is not installed: run `make setup`") from None
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        raise Skipped("PostgreSQL is not installed: run `make setup`, or install it")
    return folders[-1]
