"""wrk, the load generator: as many questions as the server answers, over so many connections."""

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
    """What is asked of a server: where, and the body with CARD where the name of one goes."""

    url: str
    body: str

    def answer(self, card: str) -> bytes:
        """What the server says about one card."""
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self.url, self.body.replace(CARD, card).encode(), headers)
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as said:
            answered: bytes = said.read()
        return answered


@dataclass(frozen=True)
class Answered:
    """How fast a server answered."""

    requests_a_second: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Loaded:
    """What a server did that was asked for more than it can answer; refused are the answers that were errors."""

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
    """Where wrk is, or what to do."""
    program = shutil.which("wrk")
    if program is None:
        raise BenchFailed("wrk is not installed. Install it: apt-get install wrk, or brew install wrk.")
    return program


def ask(question: Question, connections: int, seconds: int, entities: int) -> Answered:
    """Ask about random cards out of so many, on one core; an answer that is an error makes the figure worthless."""
    return answered(_said(question, connections, seconds, entities))


def load(question: Question, connections: int, seconds: int, entities: int) -> Loaded:
    """The same of a server that may refuse; a request without any answer makes the figure worthless."""
    return loaded(_said(question, connections, seconds, entities))


def _said(question: Question, connections: int, seconds: int, entities: int) -> str:
    flags = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{PATIENCE_S:g}s", "-s", str(SCRIPT)]
    command = [require_wrk(), *flags, question.url, "--", str(entities), question.body]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise BenchFailed(f"wrk failed: {run.stderr.strip() or run.stdout.strip()}")
    return run.stdout


def answered(said: str) -> Answered:
    """What the last line of wrk's output says of a server that must answer all."""
    found = loaded(said)
    if found.refused:
        raise BenchFailed(f"{found.refused} of {found.requests} requests failed. The server's log says why.")
    return Answered(found.requests / found.seconds, found.p50_ms, found.p99_ms)


def loaded(said: str) -> Loaded:
    """What the last line of wrk's output says."""
    found = json.loads(said.rstrip().splitlines()[-1])
    failed = found.pop("failed")
    if failed or not found["requests"]:
        raise BenchFailed(f"{failed} of {found['requests']} requests failed. The server's log says why.")
    return Loaded(**found)


def medians(rounds: Sequence[Answered]) -> Answered:
    """The middle of some rounds, figure by figure."""
    return Answered(
        median(one.requests_a_second for one in rounds),
        median(one.p50_ms for one in rounds),
        median(one.p99_ms for one in rounds),
    )
