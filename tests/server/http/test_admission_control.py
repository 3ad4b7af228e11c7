"""Overload: some requests get 429, the others are answered as usual, and the server recovers."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
import uvloop

from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.server.http import admission_control
from headrace.server.http.admission_control import AdmissionQueue, RequestArrival, ServerOverloaded
from headrace.server.http.listener import HttpServer, bind
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, Router, get_route, post_route
from tests.server.prediction_app import event, fraud, predicting
from tests.server.server_thread import answering
from tests.waiting import SOCKET_S, wait_until

WORK_S = 0.002


async def work(_request: Request) -> Response:
    time.sleep(WORK_S)  # noqa: ASYNC251  # a handler that computes
    return Response(200, b"{}")


async def waiting(_request: Request) -> Response:
    await asyncio.sleep(3)
    return Response(200, b"{}")


async def look(_request: Request) -> Response:
    return Response(200, b"{}")


BUSY = [post_route("/work", work), post_route("/wait", waiting), get_route("/look", look)]


def asked(port: int, path: str = "/work", method: str = "POST") -> tuple[int, str | None]:
    connection = HTTPConnection(HOST, port, timeout=SOCKET_S)
    connection.request(method, path, b"{}" if method == "POST" else None)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("retry-after")


def load(port: int, connections: int, seconds: float) -> dict[str, int]:
    """How often each status was given by a server under load."""
    words = [sys.executable, "-m", "tests.server.load", str(port), str(connections), str(seconds)]
    statuses: dict[str, int] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return statuses


def test_of_ten_times_too_much_a_part_is_refused_and_soon_nothing() -> None:
    with answering(BUSY) as port:
        assert load(port, 40, 1.0).keys() == {"200"}
        statuses = load(port, 400, 3.0)
        assert statuses.keys() == {"200", "429"}
        assert statuses["429"] <= 400 * 5  # a connection that was refused is left alone for a second
        assert load(port, 40, 1.0).keys() == {"200"}


def test_many_connect_at_once_and_a_server_that_stopped_listens_no_more() -> None:
    with answering(BUSY) as port:
        many = [socket.create_connection((HOST, port), timeout=SOCKET_S) for _ in range(100)]
        for one in many:
            one.sendall(b"GET /look HTTP/1.1\r\nhost: x\r\n\r\n")
        assert all(b" 200 " in one.recv(1 << 16) for one in many)
        for one in many:
            one.close()
    assert not is_listening(HOST, port)


def test_a_pause_with_few_in_line_is_no_overload() -> None:
    line, now = AdmissionQueue(), 100.0
    line.require_capacity(RequestArrival(now - 10, admission_control.QUEUE_THRESHOLD), now)
    line.require_capacity(RequestArrival(now - admission_control.MAX_WAIT_S / 2, 10**6), now)
    with pytest.raises(ServerOverloaded):
        line.require_capacity(
            RequestArrival(now - 2 * admission_control.MAX_WAIT_S, admission_control.QUEUE_THRESHOLD + 1), now
        )


def test_more_than_may_wait_for_a_store_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_control, "MAX_RUNNING", 2)
    with answering(BUSY) as port:
        found: list[tuple[int, str | None]] = []
        threads = [threading.Thread(target=lambda: found.append(asked(port, "/wait"))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [(200, None)] * 2 + [(429, "1")] * 4
        assert asked(port, "/wait") == (200, None)


def test_who_looks_is_always_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_control, "MAX_RUNNING", 0)
    with answering(BUSY) as port:
        assert asked(port) == (429, "1")
        assert asked(port, "/look", "GET") == (200, None)


def test_predictions_and_features_are_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with predicting(fraud(tmp_path)) as ask:
        monkeypatch.setattr(admission_control, "MAX_RUNNING", 0)
        for path in ("/predict/fraud", "/features/CardSpend", "/v2/models/fraud/infer", "/invocations"):
            said = ask("POST", path, event(1))
            assert (said.status, said.headers["retry-after"]) == (429, "1")
            assert said.error.startswith("The server has more requests than it can answer.")
        assert ask("GET", "/metrics").status == 200
        monkeypatch.undo()
        assert ask("POST", "/predict/fraud", event(1)).status == 200


def test_who_was_refused_and_goes_away_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_control, "MAX_RUNNING", 0)
    with answering(BUSY) as port:
        with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
            client.sendall(b"POST /work HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
            assert b" 429 " in client.recv(1 << 16)
        monkeypatch.undo()
        assert asked(port) == (200, None)


def test_the_line_is_as_long_as_requests_are_unanswered() -> None:
    stop, listening = threading.Event(), bind(HOST, free_port())
    http = Router([post_route("/wait", waiting), get_route("/look", look)], {})
    thread = threading.Thread(target=uvloop.run, args=(HttpServer(http, stop).serve(listening),))
    thread.start()
    port = listening.getsockname()[1]
    try:
        wait_until(lambda: is_listening(HOST, port), 10, "the server to answer")
        ask = b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
        with socket.create_connection((HOST, port)) as stays, socket.create_connection((HOST, port)) as goes:
            stays.sendall(ask)
            goes.sendall(ask)
            wait_until(
                lambda: http.admission_queue.unanswered == http.admission_queue.running == 2, 5, "both to be at work"
            )
            goes.close()
            wait_until(lambda: http.admission_queue.unanswered == 1, 5, "one to be gone")
            assert b" 200 " in stays.recv(1 << 16)
        wait_until(
            lambda: http.admission_queue.unanswered == http.admission_queue.running == 0, 5, "the line to be empty"
        )
    finally:
        stop.set()
        thread.join()
