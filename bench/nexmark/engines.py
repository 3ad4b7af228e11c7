"""Engines, each in its own process: orders are lines, and an engine that does not respond in time is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

from bench.errors import BenchFailed
from bench.nexmark.orders import ANSWER
from bench.parts import ROOT
from bench.peers.flink.connector import connector
from bench.peers.flink.setup import FLINK
from headrace.embedded_servers.java import find_java

GRACE_SECONDS = 20.0


class NotAnswered(BenchFailed):
    """An engine failed on an order, or did not respond in time."""


@dataclass(frozen=True)
class Program:
    """The command that starts an engine."""

    name: str
    command: Sequence[str]
    output: Path


def ours(broker: str, folder: Path) -> Program:
    """Spark as Headrace configures it."""
    command = [sys.executable, "-m", "bench.nexmark.spark", broker, str(folder / "spark")]
    return Program("Headrace", command, folder / "spark.out")


def flink(broker: str, folder: Path) -> Program:
    """Flink, installed if necessary; skipped, with the reason, if that is not possible."""
    python = FLINK.set_up() / "python"
    command = [str(python), "-m", "bench.peers.flink.run", broker, str(folder / "flink"), str(connector())]
    return Program("Flink", command, folder / "flink.out")


class Engine:
    """A running engine; if a timeout has ended it, the next order restarts it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._process: subprocess.Popen[str] | None = None
        self._answers: Queue[str | None] = Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.end()

    def ask(self, order: Mapping[str, Any], limit_s: float) -> Any:
        """Send an order and return the engine's response."""
        process = self._process or self._start()
        print(json.dumps(order), file=process.stdin, flush=True)
        try:
            said = self._answers.get(timeout=limit_s)
        except Empty:
            self.end(grace_s=0)
            raise NotAnswered(f"no answer within {limit_s:g} s") from None
        if said is None:
            self.end()
            raise NotAnswered(f"the engine ended by itself: {self.program.output.read_text()[-500:]}")
        answer = json.loads(said)
        if "failed" in answer:
            raise NotAnswered(" ".join(answer["failed"].split())[:500])
        return answer["said"]

    def end(self, grace_s: float = GRACE_SECONDS) -> None:
        """End the process, and whatever it has started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # a pipe
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self) -> "subprocess.Popen[str]":
        self._answers = Queue()
        with self.program.output.open("a") as errors:
            self._process = subprocess.Popen(
                self.program.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, "JAVA_HOME": str(find_java().home)},
                start_new_session=True,
            )
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers.put), daemon=True).start()
        return self._process


def _listen(lines: Iterator[str], put: Callable[[str | None], None]) -> None:
    """Hand over answers, and None in the end."""
    for line in lines:
        if line.startswith(ANSWER):
            put(line.removeprefix(ANSWER))
    put(None)
