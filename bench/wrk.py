"""wrk, the load generator: as many requests as the server answers, over a number of connections."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.errors import BenchFailed

SCRIPT = Path(__file__).with_name("keys.lua")
CARD = "CARD"
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Question:
    """A request: its URL, and its body with the placeholder CARD."""

    url: str
    body: str

    def answer(self, card: str) -> bytes:
        """The server's response for one card."""
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self.url, self.body.replace(CARD, card).encode(), headers)
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as said:
            answered: bytes = said.read()
        return answered


@dataclass(frozen=True)
class Answered:
    """The rate and the response times of a server."""

    requests_a_second: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Loaded:
    """The figures of an overloaded server; refused requests are responses with an error."""

    requests: int
    refused: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def scored_a_second(self) -> float:
        return (self.requests - self.refused) / self.seconds

    @property
    def share_refused(self) -> float:
        return self.refused / self.requests


def require_wrk() -> str:
    """The path of wrk, or an error that says how to install it."""
    program = shutil.which("wrk")
    if program is None:
        raise BenchFailed("wrk is not installed. Install it: apt-get install wrk, or brew install wrk.")
    return program


def ask(question: Question, connections: int, seconds: int, entities: int) -> Answered:
    """Request random cards, on one core; an error response makes the measurement invalid."""
    return answered(_said(question, connections, seconds, entities))


def load(question: Question, connections: int, seconds: int, entities: int) -> Loaded:
    """The same for a server that may refuse; a request without a response makes the measurement invalid."""
    return loaded(_said(question, connections, seconds, entities))


def _said(question: Question, connections: int, seconds: int, entities: int) -> str:
    flags = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{PATIENCE_S:g}s", "-s", str(SCRIPT)]
    command = [require_wrk(), *flags, question.url, "--", str(entities), question.body]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise BenchFailed(f"wrk failed: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout


def answered(said: str) -> Answered:
    """Parse the last line of wrk's output for a server that must answer every request."""
    found = loaded(said)
    if found.refused:
        raise BenchFailed(f"{found.refused} of {found.requests} requests failed. The server's log says why.")
    return Answered(found.requests / found.seconds, found.p50_ms, found.p99_ms)


def loaded(said: str) -> Loaded:
    """Parse the last line of wrk's output."""
    found = json.loads(said.rstrip().splitlines()[-1])
    failed = found.pop("failed")
    if failed or not found["requests"]:
        raise BenchFailed(f"{failed} of {found['requests']} requests failed. The server's log says why.")
    return Loaded(**found)


def medians(rounds: Sequence[Answered]) -> Answered:
    """The medians of rounds, figure by figure."""
    return Answered(
        median(one.requests_a_second for one in rounds),
        median(one.p50_ms for one in rounds),
        median(one.p99_ms for one in rounds),
    )
