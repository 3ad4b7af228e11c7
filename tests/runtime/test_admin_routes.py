"""The dashboard's commands: a fixed list, names of the app, and values that are never options."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.declare.app import load_app
from headrace.embedded_servers.ports import HOST
from headrace.runtime import admin_routes as asked
from headrace.runtime.admin_routes import AdminCommands, admin_routes
from headrace.runtime.settings import Settings
from headrace.server.auth.scopes import Scope
from headrace.server.http import listener
from headrace.server.http.responses import BadRequest
from tests.processes import own_children
from tests.server.server_thread import Asking, answering
from tests.waiting import wait_until

FILE = "examples/fraud/app.py"
SETTINGS = Settings(
    http="127.0.0.1:1",
    broker="127.0.0.1:2",
    broker_port=9092,
    store="memory",
    spark=None,
    state=Path("/nowhere"),
    limit_s=None,
    rebuild=frozenset(),
    lane="real-time",
    checkpoint_seconds=60,
)
QUESTIONS = {
    one.path.removeprefix("/ask/"): one for one in AdminCommands(FILE, load_app(FILE), SETTINGS).build_commands()
}
JSON = {"content-type": "application/json"}
PLACES = ["--place=payments-0@42", "--place=payments-1@7"]
CHANGES = {"replay", "discard", "silence"}
LETTERS = {"stream": "payments", "places": ["payments-0@42", "payments-1@7"]}


@pytest.mark.parametrize(
    ("path", "asked", "words"),
    [
        ("dead", {}, ["dead", "ls", FILE, "--json", "--broker=127.0.0.1:2"]),
        ("trace", {"id": "--help"}, ["trace", FILE, "--json", "--since=1h", "--broker=127.0.0.1:2", "--", "--help"]),
        (
            "discard",
            LETTERS,
            ["dead", "discard", FILE, "--json", "payments", "--yes", "--broker=127.0.0.1:2", *PLACES],
        ),
        ("silence", {"name": "-x"}, ["alerts", "unsilence", FILE, "--json", "--broker=127.0.0.1:2", "--", "-x"]),
        (
            "silence",
            {"name": "lag", "for": "2h"},
            ["alerts", "silence", FILE, "--json", "--broker=127.0.0.1:2", "--", "lag", "2h"],
        ),
        (
            "lateness",
            {"stream": "payments"},
            ["lateness", FILE, "--json", "payments", "--state=/nowhere", "--lake=off"],
        ),
        ("card", {"model": "fraud"}, ["models", "show", FILE, "fraud", "--state=/nowhere", "--json"]),
    ],
)
def test_a_question_is_a_command(path: str, asked: dict[str, Any], words: list[str]) -> None:
    assert QUESTIONS[path].build_arguments(asked) == words


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("letters", {}),
        ("letters", {"stream": "--help"}),
        ("letters", {"stream": "payments", "reason": "a\nb"}),
        ("letters", {"stream": ["payments"]}),
        ("trace", {}),
        ("trace", {"id": ""}),
        ("trace", {"id": "a\0b"}),
        ("trace", {"id": "x" * 501}),
        ("replay", {"stream": "payments"}),
        ("replay", {"stream": "payments", "places": []}),
        ("replay", {"stream": "payments", "places": [7]}),
        ("discard", {"stream": "payments", "places": ["p-0@1"] * 501}),
        ("discard", {"stream": "payments", "places": "payments-0@1"}),
        ("silence", {"for": "2h"}),
        ("silence", {"name": "lag", "for": 2}),
        ("quality", {"model": "nobody"}),
        ("drift", {}),
    ],
)
def test_what_is_no_question_is_refused_before_anything_starts(path: str, asked: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        QUESTIONS[path].build_arguments(asked)


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with answering(admin_routes(FILE, load_app(FILE), SETTINGS)) as port:
        yield Asking(port)


def test_a_command_answers_in_json(ask: Asking) -> None:
    said = ask("POST", "/ask/models", {}, JSON)
    assert (said.status, said.json) == (200, [])
    assert said.headers["cache-control"] == "no-store"


def test_what_a_command_refuses_is_said(ask: Asking) -> None:
    said = ask("POST", "/ask/card", {"model": "fraud", "version": "v9"}, JSON)
    assert said.status == 400
    assert "v9" in said.error


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"stream": "payments", "places": ["payments-0@1"]}', "text/plain", 415),
        (b'{"stream": "payments", "places": ["payments-0@1"]}', None, 415),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
    ],
)
def test_a_form_of_another_site_changes_nothing(ask: Asking, body: bytes, kind: str | None, status: int) -> None:
    assert ask("POST", "/ask/discard", body, {} if kind is None else {"content-type": kind}).status == status


def test_no_command_is_started_by_a_link(ask: Asking) -> None:
    for path in QUESTIONS:
        assert ask("GET", f"/ask/{path}").status == 405  # each starts a process


def test_only_so_many_look_at_once(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    async def statuses() -> list[int]:
        asking = [asyncio.to_thread(ask, "POST", "/ask/models", {}, JSON) for _ in range(3)]
        return [said.status for said in await asyncio.gather(*asking)]

    monkeypatch.setattr(asked, "QUEUE_SECONDS", 600.0)
    assert asyncio.run(statuses()) == [200] * 3  # the third waits
    monkeypatch.setattr(asked, "QUEUE_SECONDS", 0.05)
    assert set(asyncio.run(statuses())) == {200, 503}
    assert ask("POST", "/ask/models", {}, JSON).status == 200


def test_looking_needs_to_read_and_changing_to_write() -> None:
    routes = admin_routes(FILE, load_app(FILE), SETTINGS)
    scopes = {route.path.removeprefix("/ask/"): (*route.methods, route.scope) for route in routes}
    assert {path for path, (method, *_, scope) in scopes.items() if (method, scope) == ("POST", Scope.WRITE)} == CHANGES
    assert {scope for path, (*_, scope) in scopes.items() if path not in CHANGES} == {Scope.READ}


def test_a_command_is_ended_once_nobody_waits_for_it(ask: Asking) -> None:
    body, before = b'{"id": "p-1"}', own_children()
    head = f"POST /ask/trace HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    with socket.create_connection((HOST, ask.port), timeout=30) as client:
        client.sendall(head.encode() + b"\r\n\r\n" + body)
        wait_until(lambda: own_children() - before, 30, "the command to start")
        (child,) = own_children() - before
    wait_until(lambda: not Path(f"/proc/{child}").exists(), 30, "the command to end")


def test_a_command_that_takes_long_is_waited_for(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.1)
    assert ask("POST", "/ask/models", {}, JSON).status == 200
