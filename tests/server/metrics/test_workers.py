"""Several processes on one port: each reports for all, and a dead one leaves the reports soon."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from headrace.declare.app import load_app
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.topics import ensure_topics
from headrace.server.metrics.request_stats import PredictionStats, RequestStats
from headrace.server.metrics.server_counts import ServerCounts, TableCounts
from tests.server.metrics.test_metrics_route import metrics
from tests.server.server_thread import Asking
from tests.server.test_server import send_tiles, tell
from tests.waiting import patiently, wait_until

APP = """
import headrace as hr

{stream} = hr.Stream("{stream}", schema="id string, card string, amount double, at timestamp", id="id", key="card",
    time="at")

@hr.features({stream}, by="card")
class {view}:
    payments = hr.count(windows="1h")
"""
WORKERS = 3


class Running:
    """`headrace run APP serve --workers 3`."""

    def __init__(self, app: Path, broker: EmbeddedBroker, state: Path) -> None:
        self._app, self._broker = load_app(str(app)), broker.address
        self.state, self.port = state, free_port()
        flags = ["--workers", str(WORKERS), "--broker", broker.address, "--state", str(state)]
        command = [sys.executable, "-m", "headrace", "run", str(app), "serve", *flags, "--http", f"{HOST}:{self.port}"]
        self.process = subprocess.Popen(command)
        self.ask = Asking(self.port)

    def pids(self) -> dict[int, set[int]]:
        """The processes that each worker has been, by its number."""
        found: dict[int, set[int]] = {}
        for file in (self.state / "workers").glob("*.json"):
            number, _, pid = file.stem.partition("-")
            found.setdefault(int(number), set()).add(int(pid))
        return found

    def is_ready(self) -> bool:
        tell(self._broker, self._app)
        try:
            return self.ask("GET", "/v2/health/ready").status == 200
        except OSError:
            return False


@contextmanager
def running(app: Path, broker: EmbeddedBroker, state: Path) -> Iterator[Running]:
    server = Running(app, broker, state)
    try:
        wait_until(server.is_ready, 60, "all workers to be ready")
        yield server
    finally:
        server.process.terminate()
        assert server.process.wait(patiently(30)) == 0
        for pids in server.pids().values():
            assert not any(map(is_alive, pids))


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class Clients:
    """Send each request on a new connection until stopped, so that each worker gets its share."""

    def __init__(self, server: Running, path: str) -> None:
        self._server, self._path = server, path
        self._stop = threading.Event()
        self.answered, self.broken = 0, 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                said = self._server.ask("POST", self._path, {"keys": ["c1"]})
            except OSError:  # it was at the worker that died
                self.broken += 1
            else:
                assert said.status == 200, said.body
                assert said.json["rows"][0]["values"] == {"payments_1h": 5}
                self.answered += 1


def test_a_worker_that_is_killed_is_started_again_and_the_others_go_on(broker: EmbeddedBroker, tmp_path: Path) -> None:
    file, name = tmp_path / "app.py", f"workers_{os.getpid()}"
    file.write_text(APP.format(stream=name, view=f"V{name}"))
    app = load_app(str(file))
    ensure_topics(broker.address, app.streams, app.views)
    send_tiles(broker.address, app.views[0], 5)
    path = f"/features/{app.views[0].name}"
    with running(file, broker, tmp_path / "state") as server, Clients(server, path) as clients:
        seen = [0.0]

        def counted() -> float:
            """The request count of /metrics; fails if it is less than before."""
            requests = ("headrace_requests_total", frozenset({("path", path), ("status", "200")}))
            try:
                now = metrics(server.ask).get(requests, 0.0)
            except OSError:  # it was at the worker that died
                return seen[-1]
            assert now >= seen[-1]
            seen.append(now)
            return now

        wait_until(lambda: counted() > 50, 30, "requests to be counted")
        for _ in range(3):
            before = server.pids()
            number, killed = next((n, pid) for n, pids in before.items() for pid in pids if is_alive(pid))
            os.kill(killed, signal.SIGKILL)
            answered, tally = clients.answered, counted()
            wait_until(lambda answered=answered: clients.answered > answered + 50, 30, "the others to answer")
            wait_until(lambda tally=tally: counted() > tally + 20, 30, "them to be counted")
            wait_until(lambda n=number, b=before: server.pids()[n] > b[n], 60, "a new worker")
            wait_until(server.is_ready, 60, "all to be ready again")
        assert clients.broken <= 3
    assert seen[-1] <= clients.answered + clients.broken
    assert len(server.pids()) == WORKERS
    assert not server.is_ready()


def test_a_port_that_another_listens_on_is_not_shared(broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP.format(stream="taken", view="Taken"))
    port = free_port()
    with subprocess.Popen([sys.executable, "-m", "http.server", str(port), "--bind", HOST]) as other:
        wait_until(lambda: _answers(port), 10, "the other to listen")
        flags = ["--workers", "2", "--broker", broker.address, "--state", str(tmp_path), "--http", f"{HOST}:{port}"]
        command = [sys.executable, "-m", "headrace", "run", str(file), "serve", *flags]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patiently(60))
        other.terminate()
    assert run.returncode == 1
    assert "another program listens there" in run.stderr


def _answers(port: int) -> bool:
    try:
        return Asking(port)("GET", "/").status == 200
    except OSError:
        return False


def one(requests: int, scored: int, refused: int) -> ServerCounts:
    """What a process has counted."""
    tally, made, table = RequestStats(), PredictionStats(), TableCounts(refused)
    for number in range(requests):
        tally.add(200 if number % 2 else 400, 0.001 * number)
        table.apply_delays.add(0.5)
    made.add([("store",)] * scored)
    counted = ServerCounts({"/p": tally}, {"fraud": made}, tables={"V": table})
    counted.lost_predictions["fraud"] = scored
    return counted


def told(counted: ServerCounts) -> Mapping[str, object]:
    return {**json.loads(json.dumps(counted.to_json()))}


def test_what_several_have_counted_is_their_sum_and_survives_being_written() -> None:
    both = ServerCounts.merge([one(3, 4, 2), ServerCounts.from_json(told(one(5, 6, 2)))])
    assert both.requests["/p"].statuses == {400: 5, 200: 3}
    assert (sum(both.requests["/p"].delays.counts), both.requests["/p"].delays.total_seconds) == (
        8,
        pytest.approx(0.013),
    )
    assert (both.predictions["fraud"].scored, both.predictions["fraud"].degraded) == (10, {"store": 10})
    assert (both.lost_predictions, both.tables["V"].rejected_records, sum(both.tables["V"].apply_delays.counts)) == (
        {"fraud": 10},
        2,
        8,
    )
    assert told(ServerCounts.from_json(told(both))) == told(both)
