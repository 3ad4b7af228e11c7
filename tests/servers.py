"""A Redis that a test may stop, kill and start again."""

import shutil
import sys
from pathlib import Path

import pytest

from headrace.local.child import Child
from headrace.local.ports import HOST, answers, free_port
from tests.waiting import wait_until


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
