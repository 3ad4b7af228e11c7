"""A NATS server with JetStream, with the actions of a publisher."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import nats
import pytest
from nats.js import JetStreamContext

from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from tests.waiting import patiently, wait_until

Answer = TypeVar("Answer")
SBIN = "/usr/sbin"  # where Debian keeps it


class OwnNats:
    """A server of our own, which may be stopped and started again: it has what it had."""

    def __init__(self, folder: Path, *flags: str) -> None:
        program = shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}{os.pathsep}{SBIN}")
        if program is None:
            pytest.skip("nats-server is not installed: run `make setup`, or install it")
        self._port, self._folder = free_port(), folder
        self._command = [program, "-a", HOST, "-p", str(self._port), "-js", "-sd", str(folder), *flags]
        self.url = f"nats://{HOST}:{self._port}"

    def start(self) -> None:
        self._server = ChildProcess(self._command, folder=self._folder, output=self._folder / "nats.log")
        self._server.start()
        wait_until(lambda: is_listening(HOST, self._port), 20, "nats-server to answer")

    def stop(self) -> None:
        self._server.stop(grace_s=patiently(10))

    def add_stream(self, name: str, subjects: list[str], **config: Any) -> None:
        self.ask(lambda js: js.add_stream(name=name, subjects=subjects, **config))

    def delete_stream(self, name: str) -> None:
        self.ask(lambda js: js.delete_stream(name))

    def count(self, name: str) -> int:
        """How many messages a stream has now."""
        return self.ask(lambda js: js.stream_info(name)).state.messages

    def publish(self, subject: str, values: Iterable[bytes], headers: dict[str, str] | None = None) -> None:
        """Publish in order, and wait until all are kept."""

        async def all_of_them(js: JetStreamContext) -> None:
            waiting = []
            for value in values:
                waiting.append(await js.publish_async(subject, value, headers=headers, wait_stall=30))
                if len(waiting) == 500:
                    await asyncio.gather(*waiting)
                    waiting.clear()
            await asyncio.gather(*waiting)

        self.ask(all_of_them)

    def ask(self, question: Callable[[JetStreamContext], Awaitable[Answer]]) -> Answer:
        async def asked() -> Answer:
            client = await nats.connect(self.url)
            try:
                return await question(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(asked())
