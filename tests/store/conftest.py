"""A Redis that a test may kill."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.child import Child
from headrace.local.ports import HOST, answers, free_port
from tests.waiting import wait_until


class OwnRedis:
    """A Redis without persistence: started again, it is empty."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
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
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("redis-server is not installed: run `make setup`, or install it")
        command = [program, "--bind", HOST, "--port", str(self._port), "--save", "", "--appendonly", "no"]
        return Child(command, folder=self._folder, output=self._folder / "redis.log")


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    yield server
    server.stop()
