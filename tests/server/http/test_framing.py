"""Bytes that two HTTP/1.1 parsers could split differently are rejected, and rejections keep their order."""

import asyncio
import logging
import socket
from collections.abc import Iterator

import pytest

from headrace.embedded_servers.ports import HOST
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, post_route
from tests.server.http.test_connection import LAST, asking, bodies, said
from tests.server.server_thread import answering
from tests.waiting import SOCKET_S

HEAD = b"POST /echo HTTP/1.1\r\nhost: x\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
HIDDEN = b"0\r\n\r\nPOST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nhidden"


async def echo(request: Request) -> Response:
    return Response(200, request.body)


async def later(request: Request) -> Response:
    await asyncio.sleep(0.05)
    return Response(200, request.body)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with answering([post_route("/echo", echo, runs_inline=True), post_route("/later", later)]) as port:
        yield port


DOUBTFUL_FRAMINGS = {
    "a length and chunks": HEAD + b"content-length: %d\r\ntransfer-encoding: chunked\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "chunks and a length": HEAD + b"transfer-encoding: chunked\r\ncontent-length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "two lengths": HEAD + b"content-length: 0\r\ncontent-length: 6\r\n\r\nhidden",
    "the same length twice": HEAD + b"content-length: 6\r\ncontent-length: 6\r\n\r\nhidden",
    "a list of lengths": HEAD + b"content-length: 6, 6\r\n\r\nhidden",
    "a length with a sign": HEAD + b"content-length: +6\r\n\r\nhidden",
    "a length in hexadecimal": HEAD + b"content-length: 0x6\r\n\r\nhidden",
    "a length of 65 bits": HEAD + b"content-length: 18446744073709551622\r\n\r\nhidden",
    "an empty length": HEAD + b"content-length:\r\n\r\nhidden",
    "a space before the colon": HEAD + b"content-length : 6\r\n\r\nhidden",
    "a folded line": HEAD + b"transfer-encoding:\r\n chunked\r\n\r\n" + HIDDEN,
    "a coding nobody knows": HEAD + b"transfer-encoding: xchunked\r\n\r\n" + HIDDEN,
    "a control character": HEAD + b"transfer-encoding: \x0bchunked\r\n\r\n" + HIDDEN,
    "chunks within chunks": HEAD + b"transfer-encoding: chunked, chunked\r\n\r\n" + HIDDEN,
    "chunks that are not last": HEAD + b"transfer-encoding: chunked, identity\r\n\r\n" + HIDDEN,
    "no coding": HEAD + b"transfer-encoding: identity\r\n\r\n" + HIDDEN,
    "lines that end in LF": b"POST /echo HTTP/1.1\nhost: x\ncontent-length: 6\n\nhidden",
    "a line that ends in CR": HEAD + b"x: y\rcontent-length: 6\r\n\r\nhidden",
    "a NUL": HEAD + b"x: y\0\r\ncontent-length: 6\r\n\r\nhidden",
    "a name that is no token": HEAD + b"x y: z\r\ncontent-length: 6\r\n\r\nhidden",
    "a size with a prefix": CHUNKED + b"0x6\r\nhidden\r\n0\r\n\r\n",
    "a size with a sign": CHUNKED + b"-6\r\nhidden\r\n0\r\n\r\n",
    "a size of 65 bits": CHUNKED + b"10000000000000006\r\nhidden\r\n0\r\n\r\n",
    "a size and a space": CHUNKED + b"6 \r\nhidden\r\n0\r\n\r\n",
    "a chunk that is longer": CHUNKED + b"5\r\nhidden\r\n0\r\n\r\n",
    "an LF within an extension": CHUNKED + b"6;a\nb\r\nhidden\r\n0\r\n\r\n",
    "a length in a trailer": CHUNKED + b"6\r\nhidden\r\n0\r\ncontent-length: 6\r\n\r\n",
    "a coding in a trailer": CHUNKED + b"6\r\nhidden\r\n0\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/0.9": b"GET /echo\r\n\r\n",
    "HTTP/2.0": b"POST /echo HTTP/2.0\r\nhost: x\r\ncontent-length: 6\r\n\r\nhidden",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("sent", DOUBTFUL_FRAMINGS.values(), ids=DOUBTFUL_FRAMINGS.keys())
@pytest.mark.parametrize("before", [b"", asking("/later", b"first")], ids=["alone", "behind another"])
def test_a_request_that_could_be_read_in_two_ways_is_refused_and_is_the_last(
    port: int, sent: bytes, before: bytes
) -> None:
    *answered, refused = said(port, before + sent + LAST).split(b"HTTP/1.1 ")[1:]
    assert [one[:4] for one in answered] == [b"200 "] * bool(before)
    assert refused.startswith(b"400 ")
    assert b"hidden" not in refused


def test_a_body_in_a_coding_that_is_not_read_is_refused(port: int) -> None:
    sent = HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    answer = said(port, sent + LAST)
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert b"Transfer-Encoding 'gzip, chunked' is not supported." in answer
    assert answer.count(b"HTTP/1.1 ") == 1


def test_every_request_before_malformed_bytes_is_answered_and_then_these_are_refused(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    many = b"".join(asking(path, b"%d" % number) for number, path in enumerate(["/later", "/echo"] * 4))
    answer = said(port, many + b"nonsense\r\n\r\n")
    *answered, refused = bodies(answer)
    assert answered == [b"%d" % number for number in range(8)]
    assert b"Invalid HTTP request" in refused
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_malformed_chunks_of_who_waits_to_go_on_are_refused_once(port: int, caplog: pytest.LogCaptureFixture) -> None:
    sent = HEAD + b"expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    answer = said(port, sent)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"100 Continue" not in answer
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_who_asks_whether_to_go_on_behind_another_request_is_told_to_after_its_answer(port: int) -> None:
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        second = asking("/echo", b"", "expect: 100-continue", "connection: close").replace(b"length: 0", b"length: 2")
        client.sendall(asking("/later", b"first") + second)
        received = b""
        while not received.endswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
            received += client.recv(1000)
        assert bodies(received.removesuffix(b"HTTP/1.1 100 Continue\r\n\r\n")) == [b"first"]
        client.sendall(b"hi")
        assert bodies(client.recv(1000)) == [b"hi"]


def test_a_refused_head_is_answered_though_its_body_still_comes(port: int) -> None:
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        client.sendall(HEAD + b"host: x\r\ncontent-length: 1000000\r\n\r\n")
        for _ in range(10):
            client.sendall(b" " * 10_000)
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_a_trailer_that_repeats_headers_of_the_head_changes_nothing(port: int) -> None:
    sent = CHUNKED + b"2\r\nhi\r\n0\r\nhost: evil\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    assert bodies(said(port, sent, LAST)) == [b"hi", b"last"]
