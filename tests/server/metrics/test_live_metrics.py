"""The live page and its events: safe files, one event a second, computed once for all listeners, without blocking."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path

import pytest

from headrace.embedded_servers.ports import HOST
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.http.routing import get_route
from headrace.server.metrics.live_metrics import LiveMetricsHandler, encode_snapshot
from headrace.server.metrics.prometheus import create_metric
from tests.browser import Browser
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import Asking, answering, app_of_views, serving
from tests.waiting import SOCKET_S, wait_until

HEAD = b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n"


class Looks:
    """Counts the number of looks."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        if self.count == 2:
            raise ZeroDivisionError
        return json.dumps({"look": self.count}).encode()


def listener(port: int) -> socket.socket:
    client = socket.create_connection((HOST, port), timeout=SOCKET_S)
    client.sendall(HEAD)
    return client


def heard(client: socket.socket, pieces: int) -> bytes:
    said = b""
    while said.count(b"data:") < pieces:
        more = client.recv(1 << 16)
        assert more, said
        said += more
    return said


def test_all_who_listen_are_told_what_was_looked_up_once() -> None:
    looks = Looks()
    with answering([get_route("/live", LiveMetricsHandler(looks))]) as port, ExitStack() as stack:
        clients = [stack.enter_context(listener(port)) for _ in range(50)]
        said = [heard(client, 2) for client in clients]
        assert looks.count < 50  # not one for each, let alone for each piece
    for one in said:
        head, _, body = one.partition(b"\r\n\r\n")
        assert b"content-type: text/event-stream" in head
        assert b"content-length" not in head
        assert b"connection: close" in head
        assert b": none\n\n" in body or b'"look": 1' not in body  # a failed look sends no event
        assert b'"look": 3' in body


def test_who_does_not_catch_up_and_what_holds_it_back_is_said_in_json() -> None:
    told = json.loads(
        encode_snapshot([create_metric("catch_up_seconds", [(["q"], inf), (["r"], 1.5)])], {"q": "no events yet"})
    )
    assert told["samples"] == [
        ["headrace_catch_up_seconds", {"query": "q"}, "Infinity"],
        ["headrace_catch_up_seconds", {"query": "r"}, 1.5],
    ]
    assert told["held"] == {"q": "no events yet"}
    assert "held" not in json.loads(encode_snapshot([]))


def test_nobody_looks_while_nobody_listens() -> None:
    looks = Looks()
    with answering([get_route("/live", LiveMetricsHandler(looks))]) as port:
        with listener(port) as client:
            heard(client, 1)
        wait_until(lambda: _stands_still(looks), 10, "looking to end")
        with listener(port) as client:
            heard(client, 1)


def _stands_still(looks: Looks) -> bool:
    before = looks.count
    time.sleep(1.5)
    return looks.count == before


def test_a_server_that_stops_lets_go_of_who_listens() -> None:
    with answering([get_route("/live", LiveMetricsHandler(Looks()))]) as port:
        client = listener(port)
        heard(client, 1)
    with client:
        while client.recv(1 << 16):
            pass


@pytest.fixture
def page(tmp_path: Path) -> Iterator[int]:
    view = new_view(new_stream())
    app = app_of_views(view)
    with serving(app, MemoryStoreReader(MemoryStore([view]), None), ProgressTable()) as ask:
        yield ask.port


def test_every_file_of_the_page_is_there_small_and_safe(page: int) -> None:
    ask, size = Asking(page), 0
    for path in ("/", "/dashboard/app.js", "/dashboard/chart.js", "/dashboard/numbers.js", "/dashboard/style.css"):
        said = ask("GET", path)
        assert said.status == 200
        assert "default-src 'none'" in said.headers["content-security-policy"]
        assert said.headers["x-content-type-options"] == "nosniff"
        size += len(said.body)
    assert size < 200_000
    assert ask("GET", "/dashboard/../server.py").status == 404
    assert ask("GET", "/dashboard/%2e%2e/server.py").status == 404
    assert ask("HEAD", "/live").status == 200


def test_a_browser_shows_the_page_without_a_complaint_in_both_themes(page: int, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        for theme in ("light", "dark"):
            browser.open(f"http://{HOST}:{page}/?theme={theme}")
            wait_until(lambda: browser.value("document.body?.dataset.state") == "live", 20, "the page to be live")
            assert browser.value("document.documentElement.dataset.theme") == theme
            assert browser.value("document.querySelectorAll('#golden article').length") == 14
        assert browser.console == []
