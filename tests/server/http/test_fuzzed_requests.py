"""Whatever bytes arrive, the server reads the requests that another parser reads, or rejects them and closes.

bytes ─┬─▶ h11 ────────────▶ requests, and how they end
       └─▶ cut ─▶ server ──▶ what its handlers saw     a beginning of the same; fewer only after a refusal or a close
"""

import asyncio
import base64
import gc
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest
import uvloop
from hypothesis import HealthCheck, example, given, settings

from headrace.embedded_servers.ports import HOST
from headrace.server.http.connection import HttpConnection
from headrace.server.http.listener import HttpServer, bind
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, Router
from tests.server.http.reference_parser import Reading, RequestFacts, read_requests, visible_headers
from tests.server.http.request_streams import LAST_REQUEST, cut, cuts, hostile_streams, valid_streams
from tests.server.served_process import resident_bytes, served_process
from tests.waiting import SOCKET_S, wait_until

MIB = 1 << 20
ANSWER_PATTERN = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n(.*?)\r\n\r\n", re.DOTALL)
FACTS_PATTERN = re.compile(rb"x-facts: (\S+)")
FUZZING = {"deadline": None, "suppress_health_check": list(HealthCheck)}
VALID_REQUEST = b"GET /task HTTP/1.1\r\nhost: x\r\n\r\n"
BAD_CHUNK = b"POST /task HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"


class EchoRouter(Router):
    """Responds with the request it got: inline, or in a task."""

    def __init__(self) -> None:
        super().__init__([], {})
        self.inline_paths = frozenset({"/inline"})

    async def handle(self, request: Request) -> Response:
        if request.path not in self.inline_paths:
            await asyncio.sleep(0)
        target = f"{request.path}?{request.query.decode('latin-1')}"
        facts = RequestFacts(
            request.method, target, visible_headers(list(request.headers)), request.body.decode("latin-1")
        )
        return Response(200, b"", headers=((b"x-facts", base64.b64encode(json.dumps(facts).encode())),))


class ErrorRecords(logging.Handler):
    """Keeps what is logged as an error, in whichever thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


class EchoServer(NamedTuple):
    """A server of an echo, and what it logs."""

    port: int
    router: Router
    errors: ErrorRecords


@pytest.fixture(scope="module")
def echo() -> Iterator[EchoServer]:
    stop, listening, router, errors = threading.Event(), bind(HOST, 0), EchoRouter(), ErrorRecords()
    listening.listen()
    thread = threading.Thread(target=uvloop.run, args=(HttpServer(router, stop).serve(listening),))
    thread.start()
    logging.getLogger().addHandler(errors)
    try:
        yield EchoServer(listening.getsockname()[1], router, errors)
    finally:
        logging.getLogger().removeHandler(errors)
        stop.set()
        thread.join()


class Answer(NamedTuple):
    """A status, what the handler saw, and whether the connection ends with it."""

    status: int
    facts: RequestFacts | None
    is_last: bool


class Conversation(NamedTuple):
    """The answers until the server closed, or cut the connection because it was sent more."""

    answers: list[Answer]
    was_reset: bool


def answers_in(received: bytes) -> list[Answer]:
    return [
        Answer(int(status), _facts_in(head), b"connection: close" in head)
        for status, head in ANSWER_PATTERN.findall(received)
        if status != b"100"
    ]


def _facts_in(head: bytes) -> RequestFacts | None:
    match = FACTS_PATTERN.search(head)
    if match is None:
        return None
    method, target, headers, body = json.loads(base64.b64decode(match[1]))
    return RequestFacts(method, target, tuple((name, value) for name, value in headers), body)


def converse(port: int, pieces: list[bytes], reading: Reading) -> Conversation:
    """Send pieces and read until the server closes; sends the end of the stream once no more response is due."""
    received, was_reset, is_ending = b"", False, reading.is_over
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                client.sendall(piece)
        except ConnectionError:
            was_reset = True
        with suppress(ConnectionError):
            while True:
                answers = answers_in(received)
                if not is_ending and len(answers) >= len(reading.requests) and not any(one.is_last for one in answers):
                    with suppress(OSError):  # the server may have cut the connection by now
                        client.shutdown(socket.SHUT_WR)
                    is_ending = True
                more = client.recv(1 << 16)
                if not more:
                    return Conversation(answers_in(received), was_reset)
                received += more
    return Conversation(answers_in(received), was_reset=True)


def is_same_request(seen: RequestFacts, read: RequestFacts) -> bool:
    """Whether a handler saw what the other parser read; a target that is no path is only compared by its request."""
    path, _, query = read.target.partition("?")
    is_same_target = not path.startswith("/") or seen.target == f"{unquote(path)}?{query}"
    return is_same_target and seen._replace(target="") == read._replace(target="")


def check_stream(server: EchoServer, sent: bytes, positions: list[int]) -> Conversation:
    """Hold the server to the other parser's reading."""
    reading = read_requests(sent)
    conversation = converse(server.port, cut(sent, positions), reading)
    answers = conversation.answers
    seen = [one.facts for one in answers if one.facts is not None]
    assert len(seen) <= len(reading.requests), (seen, reading)
    for one, other in zip(seen, reading.requests, strict=False):
        assert is_same_request(one, other), (one, other, reading.problem)
    assert all(one.status in {200, 400, 413, 501} for one in answers), answers
    assert not any(one.is_last for one in answers[:-1]), answers
    if len(seen) < len(reading.requests):
        assert conversation.was_reset or (answers and answers[-1].is_last), (answers, reading)
    assert not server.errors.messages, server.errors.messages[:3]
    return conversation


def live_connections() -> int:
    return sum(type(one) is HttpConnection for one in gc.get_objects())


def wait_until_idle(server: EchoServer) -> None:
    """Wait until no request and no connection is left, without a run of the cycle collector."""
    queue = server.router.admission_queue
    wait_until(lambda: queue.unanswered == queue.running == 0, 10, "every request to be answered or gone")
    wait_until(lambda: live_connections() == 0, 10, "connections to be freed")


def hold_to_reference(server: EchoServer, examples: int) -> None:
    """Check so many streams, those that once failed before all others."""

    @example(sent=BAD_CHUNK + LAST_REQUEST, positions=[])
    @example(sent=VALID_REQUEST * 2 + BAD_CHUNK + LAST_REQUEST, positions=[])
    @example(sent=b"GET /inline\r\n\r\n" + LAST_REQUEST, positions=[])
    @settings(max_examples=examples, **FUZZING)
    @given(sent=hostile_streams, positions=cuts)
    def check(sent: bytes, positions: list[int]) -> None:
        check_stream(server, sent, positions)

    check()
    wait_until_idle(server)


def test_hostile_bytes_are_read_as_another_parser_reads_them_or_refused(echo: EchoServer) -> None:
    gc.collect()
    gc.disable()
    try:
        hold_to_reference(echo, 400)
    finally:
        gc.enable()


@pytest.mark.faults
def test_hostile_bytes_are_read_as_another_parser_reads_them_for_long(echo: EchoServer) -> None:
    hold_to_reference(echo, 50_000)


@settings(max_examples=100, **FUZZING)
@given(sent=valid_streams, positions=cuts)
def test_all_requests_of_a_valid_stream_are_answered(echo: EchoServer, sent: bytes, positions: list[int]) -> None:
    conversation = check_stream(echo, sent, positions)
    assert len(conversation.answers) == len(read_requests(sent).requests)
    assert {one.status for one in conversation.answers} == {200}


@settings(max_examples=3000, database=None, **FUZZING)
@given(sent=hostile_streams, positions=cuts)
def send_hostile_bytes(port: int, sent: bytes, positions: list[int]) -> None:
    converse(port, cut(sent, positions), Reading(is_over=False))


@pytest.mark.faults
def test_hostile_bytes_leave_memory_flat(tmp_path: Path) -> None:
    with served_process(tmp_path) as (port, pid):
        send_hostile_bytes(port)
        first = resident_bytes(pid)
        for _ in range(4):
            send_hostile_bytes(port)
        assert resident_bytes(pid) - first < 16 * MIB
