"""Servers that a test may stop, kill and restart: a Redis, a Redis Cluster of three, a PostgreSQL."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from bench.errors import Skipped
from bench.postgres import OwnPostgres
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from tests.waiting import patiently, wait_until

# A test's broker does not run long enough to amortize the JVM's second compiler.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)
BOUNDS = [0, 5461, 10923, 16384]  # the slot ranges of a cluster's servers


class OwnRedis:
    """A Redis without persistence: empty after a restart; with `lasting`, it keeps its data."""

    def __init__(self, folder: Path, *flags: str, lasting: bool = False) -> None:
        self._folder, self._port, self._flags = folder, free_port(), flags
        self._appends = "yes" if lasting else "no"
        self.url = f"redis://{HOST}:{self._port}/0"
        self._server = self._child()

    def start(self) -> None:
        self._server = self._child()
        self._server.start()
        wait_until(lambda: is_listening(HOST, self._port), 20, "redis-server to answer")

    def stop(self) -> None:
        self._server.stop(grace_s=patiently(10))

    @property
    def port(self) -> int:
        return self._port

    @property
    def cluster_port(self) -> str:
        return self._flags[-1]

    @property
    def pid(self) -> int:
        pid = self._server.pid
        assert pid is not None
        return pid

    def _program(self) -> str:
        program = shutil.which("redis-server") or shutil.which("redis-server", path=Path(sys.executable).parent)
        if program is None:
            pytest.skip("redis-server is not installed: run `make setup`, or install it")
        return program

    def _child(self) -> ChildProcess:
        program = self._program()
        command = [program, "--bind", HOST, "--port", str(self._port), "--save", "", "--appendonly", self._appends]
        return ChildProcess([*command, *self._flags], folder=self._folder, output=self._folder / "redis.log")


class OwnValkey(OwnRedis):
    """A Valkey; skips the test if none is installed."""

    def _program(self) -> str:
        program = shutil.which("valkey-server")
        if program is None:
            pytest.skip("valkey-server is not installed: Debian has it from 13 on")
        return program


class OwnCluster:
    """A Redis Cluster of three servers without replicas or persistence; each may be stopped, and restarts empty."""

    def __init__(self, folder: Path) -> None:
        self.servers = []
        for number in range(3):
            (own := folder / str(number)).mkdir()
            flags = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
            self.servers.append(OwnRedis(own, *flags, "--cluster-port", str(free_port())))
        self.url = self.servers[0].url.replace("redis://", "redis+cluster://").removesuffix("/0")

    def start(self) -> None:
        for server in self.servers:
            server.start()
        clients = [redis.Redis.from_url(server.url) for server in self.servers]
        for client, first, end in zip(clients, BOUNDS, BOUNDS[1:], strict=False):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for server in self.servers[1:]:
            clients[0].execute_command("CLUSTER", "MEET", HOST, server.port, server.cluster_port)
        for client in clients:
            wait_until(lambda: self.stands(client), 30, "the cluster to stand")  # noqa: B023

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def server_of(self, key: bytes) -> OwnRedis:
        """The server that has the slot of a key."""
        return next(server for server, end in zip(self.servers, BOUNDS[1:], strict=True) if key_slot(key) < end)

    @staticmethod
    def stands(client: redis.Redis) -> bool:
        info = client.cluster("INFO")
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3"


@contextmanager
def own_postgres(*, is_captured: bool = False) -> Iterator[OwnPostgres]:
    """A PostgreSQL that is removed at the end; skips the test if none is available."""
    try:
        server = OwnPostgres(is_captured=is_captured)
    except Skipped as why:
        pytest.skip(str(why))
    server.start()
    try:
        yield server
    finally:
        server.remove()
