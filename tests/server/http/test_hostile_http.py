"""Hostile bytes against any HTTP server implementation: bounds on memory, work and time."""

import asyncio
import json
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from headrace.embedded_servers.java import find_java
from headrace.embedded_servers.ports import HOST
from headrace.server.auth.scopes import Scope
from headrace.server.http import listener, routing
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, get_route, post_route
from tests.server.prediction_app import event
from tests.server.secured_server import Guarded
from tests.server.served_process import resident_bytes, served_process
from tests.server.server_thread import answering
from tests.waiting import wait_until

MIB = 1 << 20
PATH = "/predict/fraud"
CHUNKED = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n".encode()
HALF_BODY = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {MIB}\r\n\r\n".encode() + b" " * (MIB // 2)
PING = b"GET /ping HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
REFUSED = (b"HTTP/1.1 400 ", b"HTTP/1.1 431 ")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with served_process(tmp_path_factory.mktemp("model")) as found:
        yield found


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=30)


def sent_until_refused(client: socket.socket, piece: bytes, most: int) -> tuple[bytes, int]:
    """The server's response to endless pieces, and the number of bytes it accepted before."""
    count = 0
    with suppress(ConnectionError):
        while count < most:
            if select.select([client], [], [], 0)[0]:
                return client.recv(1 << 16), count
            client.sendall(piece)
            count += len(piece)
        return client.recv(1 << 16), count
    return b"", count


ENDLESS = [
    b"0\r\n" + b"x: y\r\n" * 20,
    b"0\r\nx: " + b"y" * 8192,
    b"0\r\n" + b"x" * 8192,
    b"1;" + b"x" * 8192,
    b"1;x=" + b"y" * 8192,
]


@pytest.mark.parametrize("beginning", ENDLESS)
def test_trailers_and_chunk_extensions_without_end_are_refused_in_flat_memory(
    process: tuple[int, int], beginning: bytes
) -> None:
    port, pid = process
    line = b"x: yyyyyyyyyyyy\r\n" * 512 if beginning.endswith(b"\r\n") else b"y" * 8192
    before = resident_bytes(pid)
    with connected(port) as client:
        client.sendall(CHUNKED + beginning)
        answer, taken = sent_until_refused(client, line, 64 * MIB)
    assert answer.startswith(REFUSED), (answer[:100], taken)
    assert resident_bytes(pid) - before < 16 * MIB


def test_a_trailer_is_read_and_says_nothing(server: Guarded) -> None:
    head = (
        b"POST /features/CardSpend HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
    )
    token = f"authorization: Bearer {server.tokens[Scope.READ]}\r\n".encode()
    body = b'e\r\n{"keys":["a"]}\r\n'
    assert said(server.ask.port, head + token + b"\r\n" + body + b"0\r\nx: y\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert said(server.ask.port, head + b"\r\n" + body + b"0\r\n" + token + b"\r\n").startswith(b"HTTP/1.1 401 ")
    assert said(server.ask.port, head + token + b"\r\n" + body + b"0\r\norigin: http://evil\r\n\r\n").startswith(
        b"HTTP/1.1 200 "
    )


def said(port: int, *pieces: bytes) -> bytes:
    """All that is answered until the server closes."""
    answer = b""
    with connected(port) as client:
        for piece in pieces:
            client.sendall(piece)
        while more := client.recv(1 << 16):
            answer += more
    return answer


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Sec-Fetch-Site"])
@pytest.mark.parametrize("other", [b"localhost", b"http://localhost", b"Bearer hr_x", b"none", b""])
def test_a_header_that_says_who_asks_is_refused_where_it_is_there_twice(
    server: Guarded, name: str, other: bytes
) -> None:
    first = {"Host": "localhost", "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    value = first.get(name, f"Bearer {server.tokens[Scope.READ]}").encode()
    for one, two in ((value, other), (other, value), (value, value)):
        lines = [b"GET /metrics HTTP/1.1", b"connection: close", name.encode() + b": " + one]
        lines += [] if name == "Host" else [b"host: localhost"]
        lines += [name.lower().encode() + b": " + two, b"", b""]
        answer = said(server.ask.port, b"\r\n".join(lines))
        assert answer.startswith(b"HTTP/1.1 400 "), answer[:200]


def test_a_body_is_not_waited_for_where_a_header_is_there_twice(server: Guarded) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\ncontent-length: {MIB}\r\n\r\n".encode()
    assert said(server.ask.port, head).startswith(b"HTTP/1.1 400 ")


def test_closed_connections_leave_no_memory_behind(process: tuple[int, int]) -> None:
    port, pid = process

    def attack() -> int:
        clients = [connected(port) for _ in range(100)]
        for client in clients:
            client.sendall(HALF_BODY)
        for client in clients:
            client.close()
        assert said(port, PING).startswith(b"HTTP/1.1 200 ")
        return resident_bytes(pid)

    first = attack()
    later = [attack() for _ in range(4)]
    assert max(later) - first < 50 * MIB, (first / MIB, [one / MIB for one in later])


# Abandoned work, and slow work.

ENDED, BEGUN = threading.Event(), threading.Event()


async def endless(_request: Request) -> Response:
    BEGUN.set()
    try:
        await asyncio.Event().wait()
    finally:
        ENDED.set()
    return Response(200, b"{}")


async def slow(_request: Request) -> Response:
    await asyncio.sleep(1.5)
    return Response(200, b'"there"')


async def length(request: Request) -> Response:
    return Response(200, b"%d" % len(request.body))


@pytest.fixture
def port() -> Iterator[int]:
    ENDED.clear()
    BEGUN.clear()
    routes = [
        post_route("/endless", endless),
        post_route("/at hand", endless, runs_inline=True),
        get_route("/slow", slow),
    ]
    with answering([*routes, post_route("/length", length)]) as port:
        yield port


@pytest.mark.parametrize("path", ["/endless", "/at%20hand"])
def test_work_for_a_client_that_left_is_ended(port: int, path: str) -> None:
    with connected(port) as client:
        client.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".encode())
        assert BEGUN.wait(30)
        assert not ENDED.is_set()
    assert ENDED.wait(30)


def test_work_that_takes_longer_than_it_may_is_ended_and_the_client_is_told(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "RESPONSE_TIMEOUT_SECONDS", 0.2)
    answer = said(port, b"POST /endless HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert "work was ended" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert ENDED.is_set()


def test_an_answer_that_takes_its_time_is_given(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.2)
    answer = said(port, b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert answer.endswith(b'"there"')


def test_a_body_that_comes_slowly_and_steadily_is_read(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 1.5)
    with connected(port) as client:
        client.sendall(b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        for _ in range(20):
            client.sendall(b" " * 50_000)
            select.select([client], [], [], 0.17)  # a slow connection: no response until all bytes have arrived
        assert client.recv(1000).endswith(b"\r\n\r\n1000000")


@pytest.mark.parametrize("piece", [b"", b" "])
def test_a_body_that_stands_still_or_trickles_is_cut_off(
    port: int, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    monkeypatch.setattr(listener, "TRANSFER_SECONDS", 0.5)
    with closing(connected(port)) as client:
        client.sendall(b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n ")

        def is_cut_off() -> bool:
            try:
                client.sendall(piece)
                return bool(select.select([client], [], [], 0.05)[0]) and client.recv(100) == b""
            except ConnectionError:
                return True

        wait_until(is_cut_off, 30, "the end")


JAVA = """
import java.net.URI;
import java.net.http.*;

public class Ask {
    public static void main(String[] given) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int number = 0; number < 3; number++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(given[0]))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(given[1])).build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.version() + " " + answer.body());
        }
    }
}
"""


def test_javas_own_client_is_answered_though_it_offers_http2_with_every_request(
    process: tuple[int, int], tmp_path: Path
) -> None:
    program = tmp_path / "Ask.java"
    program.write_text(JAVA)
    url, body = f"http://{HOST}:{process[0]}{PATH}", json.dumps(event(1))
    command = [str(find_java().command), "-XX:TieredStopAtLevel=1", str(program), url, body]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "jdk.compiler" in ran.stderr:
        pytest.skip("this Java is a runtime without a compiler")
    answers = ran.stdout.splitlines()
    assert len(answers) == 3, ran.stderr
    for answer in answers:
        assert answer.startswith("200 HTTP_1_1 "), answer
        assert json.loads(answer.split(" ", 2)[2])["model"] == "fraud"
