"""Valid HTTP/1.1 in all forms: sequential, pipelined, in pieces, and with the protocol's rare features."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.embedded_servers.ports import HOST
from headrace.server.http import listener
from headrace.server.http.responses import Response
from headrace.server.http.routing import MAX_BODY_BYTES, Request, get_route, post_route
from tests.server.server_thread import answering
from tests.waiting import SOCKET_S, wait_until

LARGE = b"x" * (8 << 20)
TAKEN = threading.Event()


async def echo(request: Request) -> Response:
    return Response(200, request.body + request.query)


async def later(request: Request) -> Response:
    """Awaits as often as the body says, in a task or before the task exists."""
    for _ in range(len(request.body)):
        await asyncio.sleep(0)
    await asyncio.to_thread(len, request.body)
    return Response(200, request.body)


async def taken(request: Request) -> Response:
    TAKEN.set()
    return await later(request)


async def failing_later(_request: Request) -> Response:
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def large(_request: Request) -> Response:
    return Response(200, LARGE)


async def told(request: Request) -> Response:
    return Response(200, request.header(b"x-told") or b"")


ROUTES = [
    post_route("/echo", echo, runs_inline=True),
    post_route("/later", later),
    post_route("/later at hand", later, runs_inline=True),
    post_route("/failing", failing_later, runs_inline=True),
    post_route("/taken", taken),
    get_route("/large", large),
    get_route("/told", told),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with answering(ROUTES) as port:
        yield port


def asking(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def said(port: int, *pieces: bytes) -> bytes:
    """All that is answered to these bytes until the server closes; the last request must ask for that."""
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        for piece in pieces:
            client.sendall(piece)
        answer = b""
        while more := client.recv(1 << 16):
            answer += more
        return answer


def bodies(answer: bytes) -> list[bytes]:
    found = []
    while answer:
        head, _, rest = answer.partition(b"\r\n\r\n")
        (size,) = map(int, re.findall(rb"content-length: (\d+)", head))
        found.append(rest[:size])
        answer = rest[size:]
    return found


LAST = asking("/echo", b"last", "connection: close")

requests = st.lists(
    st.tuples(st.sampled_from(["/echo", "/later", "/later%20at%20hand"]), st.binary(max_size=5)), max_size=8
)


@settings(max_examples=60, deadline=None)
@given(asked=requests, cuts=st.lists(st.integers(0, 900), max_size=6))
def test_answers_come_in_the_order_of_requests_however_they_are_cut(
    port: int, asked: list[tuple[str, bytes]], cuts: list[int]
) -> None:
    sent = b"".join(asking(path, body) for path, body in asked) + LAST
    places = [0, *sorted(cuts), len(sent)]
    pieces = [sent[low:high] for low, high in pairwise(places)]
    assert bodies(said(port, *pieces)) == [*(body for _, body in asked), b"last"]


def test_what_follows_a_last_request_is_passed_over(port: int) -> None:
    assert bodies(said(port, LAST + asking("/echo", b"more") + b"nonsense")) == [b"last"]


def test_a_client_of_http_1_0_is_answered_once(port: int) -> None:
    answer = said(port, b"POST /echo?q=1 HTTP/1.0\r\ncontent-length: 2\r\n\r\nhi")
    assert bodies(answer) == [b"hiq=1"]
    assert b"connection: close" in answer


def test_an_upgrade_is_not_taken_and_the_request_answered(port: int) -> None:
    sent = b"GET /told HTTP/1.1\r\nhost: x\r\nx-told: yes\r\nconnection: Upgrade\r\nupgrade: h2c\r\n\r\n"
    assert bodies(said(port, sent, LAST)) == [b"yes", b"last"]


OFFER = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAAA")


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 500), max_size=6))
def test_the_body_of_a_request_that_offers_http2_is_read_however_it_is_cut(port: int, cuts: list[int]) -> None:
    sent = asking("/echo", b"first", *OFFER) + asking("/later", b"second", *OFFER) + LAST
    places = [0, *sorted(cuts), len(sent)]
    assert bodies(said(port, *(sent[low:high] for low, high in pairwise(places)))) == [b"first", b"second", b"last"]


def test_many_offers_at_once_are_all_ignored(port: int) -> None:
    assert bodies(said(port, asking("/echo", b"x", *OFFER) * 50 + LAST)) == [b"x"] * 50 + [b"last"]


def test_a_tunnel_is_refused(port: int) -> None:
    answer = said(port, b"CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\nnonsense")
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ", b"HTTP/1.1 405 "))


def test_a_proxys_whole_url_is_read_as_a_path(port: int) -> None:
    assert bodies(said(port, asking("http://there:80/echo?q=1", b"hi", "connection: close"))) == [b"hiq=1"]


def test_headers_are_found_however_they_are_written(port: int) -> None:
    sent = b"GET /told HTTP/1.1\r\nHost: x\r\nX-Told: yes\r\nConnection: Close\r\n\r\n"
    assert bodies(said(port, sent)) == [b"yes"]


def test_who_asks_whether_to_go_on_is_told_to(port: int) -> None:
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        client.sendall(asking("/echo", b"", "expect: 100-continue").replace(b"length: 0", b"length: 2"))
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hi")
        assert bodies(client.recv(1000)) == [b"hi"]


def test_who_asks_whether_to_send_too_much_is_told_not_to(port: int) -> None:
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        asked = asking("/echo", b"", "expect: 100-continue")
        client.sendall(asked.replace(b"length: 0", b"length: %d" % (MAX_BODY_BYTES + 1)))
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_body_in_many_small_chunks_is_read(port: int) -> None:
    head = b"POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    assert bodies(said(port, head, b"1\r\nx\r\n" * 5000, b"0\r\n\r\n")) == [b"x" * 5000]


def test_after_a_body_that_was_too_large_the_connection_goes_on(port: int) -> None:
    answer = said(port, asking("/echo", b" " * (MAX_BODY_BYTES + 1)), LAST)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert bodies(answer)[1:] == [b"last"]


def test_an_error_after_a_wait_is_an_answer_too(port: int) -> None:
    answer = said(port, asking("/failing", b"", "connection: close"))
    assert answer.startswith(b"HTTP/1.1 500 ")


def test_every_answer_tells_its_date(port: int) -> None:
    assert re.search(rb"\r\ndate: \w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT\r\n", said(port, LAST))


def test_who_does_not_take_its_answers_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.1)
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n" * 50)
        # What the client sends is refused once the server has closed; reading would be taking the answers.
        wait_until(lambda: is_cut_off(client), SOCKET_S, "the end of the connection")
        assert bytes_until_closed(client) < 50 * len(LARGE)


def is_cut_off(client: socket.socket) -> bool:
    try:
        client.send(b"G")
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def bytes_until_closed(client: socket.socket) -> int:
    """How many bytes come until the server ends, one way or the other."""
    count = 0
    try:
        while more := client.recv(1 << 20):
            count += len(more)
    except ConnectionResetError:
        pass
    return count


def test_who_takes_a_large_answer_gets_all_of_it(port: int) -> None:
    sent = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n" * 3
    assert [len(one) for one in bodies(said(port, sent + LAST))] == [len(LARGE)] * 3 + [4]


def test_an_idle_connection_ends_after_a_while(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        client.sendall(asking("/echo", b"hi"))
        assert bodies(client.recv(1000)) == [b"hi"]
        monkeypatch.setattr(listener, "IDLE_SECONDS", 0.0)
        assert client.recv(1) == b""


def test_a_server_that_stops_answers_what_it_has_taken() -> None:
    with socket.socket() as client:
        client.settimeout(SOCKET_S)
        with answering(ROUTES) as port:
            client.connect((HOST, port))
            client.sendall(asking("/taken", b"x" * 2000))
            assert TAKEN.wait(SOCKET_S)
        assert bodies(client.recv(10_000)) == [b"x" * 2000]
