"""The processes that a section starts; each stops at the end of its block, and dies with the benchmark."""

import json
import shutil
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchFailed
from bench.servers import PATH, Filled
from bench.waiting import wait_for
from bench.wrk import CARD, Question
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port, is_listening

ROOT = Path(__file__).resolve().parent.parent
APP = ROOT / "bench" / "app.py"
FILL_LIMIT_S, READY_LIMIT_S = 900.0, 300.0
STOP_GRACE_S = 90.0
NO_REDIS = "Redis was left out: redis-server is not installed. Install it: make setup, or apt-get install redis-server."


@dataclass(frozen=True)
class Server:
    """A running server, and its content."""

    filled: Filled

    @property
    def question(self) -> Question:
        """One card, all its features, now."""
        return Question(f"http://{HOST}:{self.filled.port}{PATH}", json.dumps({"keys": [CARD]}))


@contextmanager
def serving(folder: Path, name: str, *arguments: str, workers: int = 1) -> Iterator[Server]:
    """A server of `bench.servers` with a number of processes, once it is filled and listens."""
    output = folder / f"{name}{'-anew' if '--forget' in arguments else ''}.out"
    command = [sys.executable, "-m", "bench.servers", "--workers", str(workers), name, *arguments]
    with running(command, output) as child:
        filled = wait_for(lambda: _filled(child, output), FILL_LIMIT_S, f"the {name} server")
        yield Server(filled)


def _filled(child: ChildProcess, output: Path) -> Filled | None:
    if not child.is_alive():
        raise BenchFailed(f"A server ended by itself:\n{output.read_text()}")
    said = output.read_text()
    return Filled(**json.loads(said)) if said.endswith("}\n") else None


@dataclass(frozen=True)
class Deployed:
    """A whole Headrace that is ready."""

    lane: str
    http_port: int
    broker: str


@contextmanager
def deployed(state: Path, lane: str, app: Path = APP, *flags: str) -> Iterator[Deployed]:
    """`headrace up` of an app, in one lane, on ports of its own."""
    state.mkdir()
    http_port, broker_port, output = free_port(), free_port(), state / "up.out"
    command = [sys.executable, "-m", "headrace", "up", str(app), "--lane", lane, "--state", str(state)]
    ports = ["--http", f"{HOST}:{http_port}", "--broker-port", str(broker_port)]
    with running([*command, *ports, *flags], output) as up:
        wait_for(lambda: _ready(up, output, http_port), READY_LIMIT_S, "headrace up to be ready", 0.25)
        yield Deployed(lane, http_port, f"{HOST}:{broker_port}")


def _ready(up: ChildProcess, output: Path, http_port: int) -> bool:
    if not up.is_alive():
        raise BenchFailed(f"headrace up ended by itself:\n{output.read_text()[-3000:]}")
    try:
        with urllib.request.urlopen(f"http://{HOST}:{http_port}/v2/health/ready", timeout=5):
            return True
    except OSError:
        return False


def redis_program() -> str | None:
    """The path of redis-server; `make setup` may have installed it next to Python."""
    return shutil.which("redis-server") or shutil.which("redis-server", path=str(Path(sys.executable).parent))


@contextmanager
def own_redis(folder: Path) -> Iterator[str]:
    """The URL of an empty Redis without persistence."""
    program, port = redis_program(), free_port()
    if program is None:
        raise BenchFailed(NO_REDIS)
    settings = ["--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no"]
    with running([program, *settings], folder / "redis.out"):
        wait_for(lambda: is_listening(HOST, port), 20, "redis-server")
        yield f"redis://{HOST}:{port}/0"


@contextmanager
def running(command: Sequence[str], output: Path) -> Iterator[ChildProcess]:
    """A program that runs until the block ends."""
    child = ChildProcess(command, folder=ROOT, output=output)
    child.start()
    try:
        yield child
    finally:
        child.stop(STOP_GRACE_S)
