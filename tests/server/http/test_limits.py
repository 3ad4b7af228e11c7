"""Limits on clients: every rejection has its status and a sentence, and no request stops the server."""

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.declare.app import App
from headrace.embedded_servers.ports import HOST
from headrace.online_store.feature_lookup import LookupResult
from headrace.online_store.memory.memory_store import MemoryStore, ViewTable
from headrace.online_store.memory.memory_store_reader import OnlineStoreReader
from headrace.server.http import listener
from headrace.server.http.connection import MAX_HEAD_BYTES
from headrace.server.http.routing import MAX_BODY_BYTES
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import Asking, board_of, serving, serving_store
from tests.waiting import SOCKET_S

CARDS = new_view(new_stream())
PATH = f"/features/{CARDS.name}"


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with serving_store(MemoryStore([CARDS]), CARDS) as ask:
        yield ask


@pytest.mark.parametrize("body", [b"", b"{", b"keys", b'{"keys": ["\xff"]}', b"NaN", b'{"keys": ["\\ud800"]}'])
def test_a_body_that_is_not_json_is_a_bad_request(ask: Asking, body: bytes) -> None:
    said = ask("POST", PATH, body)
    assert said.status == 400
    assert said.error.startswith("The body is not JSON: ")


@pytest.mark.parametrize("body", ["[]", "3", "null", '"keys"'])
def test_a_body_that_is_no_object_is_a_bad_request(ask: Asking, body: str) -> None:
    said = ask("POST", PATH, body)
    assert (said.status, said.error) == (400, f'The body is {body}. Write an object: {{"keys": ["c1"]}}.')


@pytest.mark.parametrize("deep", [b"[" * 500_000, b'{"keys": ' + b"[" * 500 + b"]" * 500 + b"}", b'{"a":' * 150_000])
def test_deep_nesting_is_a_bad_request(ask: Asking, deep: bytes) -> None:
    assert ask("POST", PATH, deep).status == 400


def test_an_unknown_view_is_answered_with_those_there_are(ask: Asking) -> None:
    said = ask("POST", "/features/Nobody", {"keys": []})
    assert (said.status, said.error) == (404, f"There is no /features/Nobody. There is {PATH}.")


@pytest.mark.parametrize("path", ["/nowhere", "/features", "/v3", "//", "/%00", "/features/../etc/passwd", "/?x=1/"])
def test_an_unknown_path_is_not_found(ask: Asking, path: str) -> None:
    said = ask("GET", path)
    assert said.status == (200 if path == "/?x=1/" else 404)


@pytest.mark.parametrize(("method", "path", "allowed"), [("GET", PATH, "POST"), ("POST", "/", "GET, HEAD")])
def test_the_wrong_method_is_answered_with_the_right_one(ask: Asking, method: str, path: str, allowed: str) -> None:
    said = ask(method, path)
    assert (said.status, said.headers["allow"]) == (405, allowed)
    assert said.error == f"{path} is not asked with {method}. Use {allowed}."


def test_a_body_of_more_than_a_mebibyte_is_too_large(ask: Asking) -> None:
    said = ask("POST", PATH, b" " * (MAX_BODY_BYTES + 1))
    assert said.status == 413
    assert said.error == "The body has 1048577 bytes and may have 1048576. Ask for fewer keys at a time."


def test_a_body_in_chunks_is_bounded_too(ask: Asking) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    assert _status(_raw(ask, head + chunk * 17 + b"0\r\n\r\n")) == 413


def test_a_mebibyte_is_read(ask: Asking) -> None:
    body = b'{"keys": []' + b" " * (MAX_BODY_BYTES - 12) + b"}"
    assert len(body) == MAX_BODY_BYTES
    assert ask("POST", PATH, body).status == 200


def test_what_is_not_http_is_a_bad_request(ask: Asking) -> None:
    answer = _raw(ask, b"\x16\x03\x01 hello\r\n\r\n")
    assert _status(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"].startswith("Invalid HTTP request")


def test_endless_headers_are_cut_off(ask: Asking) -> None:
    answer = _raw(ask, b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * (MAX_HEAD_BYTES + 1))
    assert _status(answer) == 400


def test_a_request_that_does_not_end_is_cut_off(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.1)
    for begun in (b"", b"GET / HT", f"POST {PATH} HTTP/1.1\r\ncontent-length: 100\r\n\r\n{{".encode()):
        with socket.create_connection((HOST, ask.port), timeout=SOCKET_S) as slow:
            slow.sendall(begun)
            assert _until_closed(slow) == b""
    monkeypatch.undo()
    assert ask("GET", "/v2/health/live").status == 200


def test_an_idle_connection_is_kept(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection((HOST, ask.port), timeout=SOCKET_S) as idle:
        assert _status(_one_answer(idle)) == 200
        monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.1)
        with socket.create_connection((HOST, ask.port), timeout=SOCKET_S) as slow:
            assert _until_closed(slow) == b""  # a sweep has passed
        monkeypatch.undo()
        assert _status(_one_answer(idle)) == 200


def test_too_many_connections_are_told_to_come_back(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 0)
    said = ask("GET", "/v2/health/live")
    assert said.status == 503
    assert "takes no more" in said.error
    monkeypatch.undo()
    assert ask("GET", "/v2/health/live").status == 200


def test_no_header_tells_what_the_server_is_made_of(ask: Asking) -> None:
    for path in ("/", "/v2/health/live", "/nowhere"):
        assert "server" not in ask("GET", path).headers


def test_the_page_lists_views_and_features(ask: Asking) -> None:
    said = ask("GET", "/")
    assert said.headers["content-type"] == "text/html; charset=utf-8"
    assert f"POST {PATH}" in said.body.decode()
    assert all(name in said.body.decode() for name in CARDS.names)


def test_head_is_answered_as_get_without_a_body(ask: Asking) -> None:
    said = ask("HEAD", "/")
    assert (said.status, said.body) == (200, b"")


class Broken:
    """A store with an error in it."""

    async def read(self, *_: Any) -> list[LookupResult]:
        raise ZeroDivisionError("secret")

    @property
    def tables(self) -> Mapping[str, ViewTable]:
        return {}

    async def missing(self) -> list[str]:
        return []

    def start(self) -> None: ...

    async def stop(self) -> None: ...


def test_an_error_of_ours_is_a_sentence_without_its_insides() -> None:
    app = App("shop", (CARDS.streams[0],), (CARDS,))
    broken: OnlineStoreReader = Broken()
    with serving(app, broken, board_of(app)) as ask:
        said = ask.features(CARDS, ["c1"])
    assert said.status == 500
    assert "secret" not in said.error
    assert "ZeroDivisionError" not in said.error


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["keys", "at"]), inner),
    max_leaves=12,
)
bodies = (
    st.binary(max_size=200)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries({"keys": json_values}, optional={"at": json_values, "request": json_values}).map(
        lambda value: json.dumps(value).encode()
    )
)


@settings(deadline=None, max_examples=300)
@given(body=bodies)
def test_no_body_breaks_the_server(ask: Asking, body: bytes) -> None:
    said = ask("POST", PATH, body)
    assert said.status in {200, 400, 413}
    assert said.json.keys() in ({"error"}, {"as_of", "rows"})


@settings(deadline=None, max_examples=200)
@given(sent=st.binary(max_size=300))
def test_no_bytes_break_the_server(ask: Asking, sent: bytes) -> None:
    answer = _raw(ask, sent + b"\r\n\r\n")
    assert not answer or _status(answer) < 500


def _raw(ask: Asking, sent: bytes) -> bytes:
    """The server's response to these bytes, with nothing after them."""
    with socket.create_connection((HOST, ask.port), timeout=SOCKET_S) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return _until_closed(client)


def _until_closed(client: socket.socket) -> bytes:
    answer = b""
    try:
        while piece := client.recv(1 << 16):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


def _one_answer(client: socket.socket) -> bytes:
    client.sendall(b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")
    return client.recv(1 << 16)


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])
