"""Servers that a test may stop, kill and start again; each is the real one."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headrace.local.child import Child
from headrace.local.ports import HOST, answers, free_port
from tests.waiting import wait_until

NOBODY = 65534


class OwnRedis:
    """A Redis without persistence: started again, it is empty; with `lasting`, it has what it had."""

    def __init__(self, folder: Path, *, lasting: bool = False) -> None:
        self._folder, self._port = folder, free_port()
        self._appends = "yes" if lasting else "no"
        self.url = f"redis://{HOST}:{self._port}/0"
        self._server = self._child()

    def start(self) -> None:
        self._server = self._child()
        self._server.start()
        wait_until(lambda: answers(HOST, self._port), 20, "redis-server to answer")

    def stop(self) -> None:
        self._server.stop(grace_s=10)

    @property
    def pid(self) -> int:
        pid = self._server.pid
        assert pid is not None
        return pid

    def _child(self) -> Child:
        program = shutil.which("redis-server") or shutil.which("redis-server", path=Path(sys.executable).parent)
        if program is None:
            pytest.skip("redis-server is not installed: run `make setup`, or install it")
        command = [program, "--bind", HOST, "--port", str(self._port), "--save", "", "--appendonly", self._appends]
        return Child(command, folder=self._folder, output=self._folder / "redis.log")


class OwnPostgres:
    """A PostgreSQL in a folder of its own, as a user who is not root: it refuses to be one."""

    def __init__(self) -> None:
        self._programs = postgres_programs()
        self._folder, self._port = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir="/tmp")), free_port()
        self.url = f"postgresql://headrace:hush-hush@{HOST}:{self._port}/postgres"
        if os.geteuid() == 0:
            os.chown(self._folder, NOBODY, NOBODY)
        self._initialise()
        self._server: Child | None = None

    def start(self) -> None:
        settings = {"port": self._port, "listen_addresses": HOST, "unix_socket_directories": "", "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *options]
        self._server = Child(_as_nobody(command), folder=Path("/tmp"), output=self._folder / "postgres.log")
        self._server.start()
        wait_until(self._accepts, 30, "PostgreSQL to answer", self._said)

    def stop(self) -> None:
        """At once, with whatever its clients have open."""
        if self._server is not None and self._server.alive():
            assert self._server.pid is not None
            os.kill(self._server.pid, signal.SIGINT)
            assert self._server.wait(20)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def ask(self, statement: str) -> list[Any]:
        """What a statement answers, as a client of its own."""
        psycopg = import_module("psycopg")
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def _accepts(self) -> bool:
        try:
            return bool(self.ask("SELECT 1"))
        except import_module("psycopg").OperationalError:  # it is starting up
            return False

    def _said(self) -> str:
        return (self._folder / "postgres.log").read_text()

    def _initialise(self) -> None:
        password = self._folder / "password"
        password.write_text("hush-hush")
        password.chmod(0o644)
        how = ["--no-sync", "--auth=scram-sha-256", "--username=headrace", f"--pwfile={password}", "--encoding=UTF8"]
        command = [str(self._programs / "initdb"), "-D", str(self._folder / "data"), *how, "--locale=C"]
        subprocess.run(_as_nobody(command), check=True, capture_output=True, cwd="/tmp")


def _as_nobody(command: list[str]) -> list[str]:
    """Who becomes another user forgets whose death is its own: it is told once more."""
    if os.geteuid() != 0:
        return command
    who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--pdeathsig=INT"]
    return [str(shutil.which("setpriv")), *who, *command]


def postgres_programs() -> Path:
    """The folder of initdb and postgres: Debian has it beside the PATH."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: run `make setup`")
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("PostgreSQL is not installed: run `make setup`, or install it")
    return folders[-1]
