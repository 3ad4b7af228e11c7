"""Bytes close to HTTP/1.1: requests with every kind of framing, mutated, and cut anywhere."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

LAST_REQUEST = b"GET /inline?last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
METHODS = [b"POST", b"POST", b"POST", b"GET", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"get"]
TARGETS = [
    b"/inline",
    b"/inline",
    b"/task",
    b"/task",
    b"/task?q=1",
    b"/in%6cine",
    b"http://there:80/task?q",
    b"*",
    b"task",
]
VERSIONS = [b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b" HTTP/0.9", b""]
HEADERS = [
    b"x-a: b",
    b"X-A:b ",
    b"x-a:",
    b"x-a: \xff",
    b"x-a : b",
    b" folded",
    b"cookie: a=b",
    b"host: y",
    b"Origin: http://x",
    b"authorization: Bearer x",
    b"expect: 100-continue",
    b"connection: keep-alive",
    b"connection: close",
    b"connection: Upgrade, HTTP2-Settings",
    b"upgrade: h2c",
    b"upgrade: websocket",
    b"http2-settings: AAEAAEAAAAIAAAAA",
    b"content_length: 9",
]
# Two ways of reading any of these are two sets of requests in the same bytes.
FRAMINGS = [
    b"content-length: 0",
    b"content-length: 5",
    b"content-length: 05",
    b"content-length: +5",
    b"content-length: -5",
    b"content-length: 5, 5",
    b"content-length: 0x5",
    b"content-length: 5 5",
    b"content-length:",
    b"content-length: 18446744073709551617",
    b"content-length : 5",
    b"Transfer-Encoding: chunked",
    b"transfer-encoding: Chunked ",
    b"transfer-encoding: gzip, chunked",
    b"transfer-encoding: chunked, identity",
    b"transfer-encoding: chunked, chunked",
    b"transfer-encoding: xchunked",
    b"transfer-encoding: \x0bchunked",
    b"transfer-encoding:\r\n chunked",
    b"transfer-encoding: identity",
    b"transfer-encoding:",
]
CHUNK_SIZES = [
    b"%x",
    b"%X",
    b"0%x",
    b"%x;a=b",
    b"%x;a",
    b"%x ",
    b" %x",
    b"0x%x",
    b"-%x",
    b"f%x",
    b"ffffffffffffffff%x",
    b";%x",
]
TRAILERS = [b"", b"", b"x-t: u\r\n", b"host: z\r\n", b"content-length: 3\r\n", b"connection: close\r\n", b"x t\r\n"]
FRAGMENTS = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"0\r\n\r\n",
    b"\r\n\r\n",
    b"GET /task HTTP/1.1\r\nhost: x\r\n\r\n",
    b"\xff",
    b";",
    b"a",
    b"1",
]


class Mutation(NamedTuple):
    """Replaces a number of bytes at one position."""

    position: int
    removed: int
    inserted: bytes


bodies = st.binary(max_size=40) | st.sampled_from(FRAGMENTS)
mutations = st.builds(
    Mutation, st.integers(0, 2000), st.integers(0, 3) | st.integers(0, 60), st.just(b"") | st.sampled_from(FRAGMENTS)
)
cuts = st.lists(st.integers(0, 2000), max_size=5)


def valid_request(target: bytes, body: bytes, chunk_bytes: int, headers: list[bytes]) -> bytes:
    """A request as it should be, in chunks of so many bytes or, for 0, as it is."""
    framing = b"transfer-encoding: chunked" if chunk_bytes else b"content-length: %d" % len(body)
    chunks = [body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes)] if chunk_bytes else []
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n" if chunk_bytes else body
    return b"\r\n".join([b"POST %b HTTP/1.1" % target, b"host: x", framing, *headers, b"", framed])


valid_requests = st.builds(
    valid_request,
    st.sampled_from([b"/inline", b"/task", b"/task?q=%20", b"/in%6cine"]),
    bodies,
    st.sampled_from([0, 1, 7, 100]),
    st.lists(st.sampled_from([b"x-a: b", b"X-B:\t c ", b"connection: keep-alive", b"upgrade: h2c"]), max_size=3),
)


@st.composite
def doubtful_requests(draw: st.DrawFn) -> bytes:
    """A request of doubtful parts."""
    first_line = b"%b %b%b" % tuple(draw(st.sampled_from(parts)) for parts in (METHODS, TARGETS, VERSIONS))
    headers = draw(st.lists(st.sampled_from(HEADERS), max_size=3)) + draw(
        st.lists(st.sampled_from(FRAMINGS), max_size=2)
    )
    lines = [first_line, b"host: x", *draw(st.permutations(headers)), b"", b""]
    body = draw(bodies)
    if draw(st.booleans()):
        body = b"%b\r\n%b\r\n0\r\n%b\r\n" % (
            draw(st.sampled_from(CHUNK_SIZES)) % len(body),
            body,
            draw(st.sampled_from(TRAILERS)),
        )
    return b"\r\n".join(lines) + body


def cut(sent: bytes, positions: list[int]) -> list[bytes]:
    """The same bytes in pieces."""
    places = [0, *sorted(position % (len(sent) + 1) for position in positions), len(sent)]
    return [sent[low:high] for low, high in pairwise(places) if low < high]


def mutate(sent: bytes, changes: list[Mutation]) -> bytes:
    for change in changes:
        start = change.position % (len(sent) + 1)
        sent = sent[:start] + change.inserted + sent[start + change.removed :]
    return sent


hostile_streams = st.builds(
    lambda requests, changes: mutate(b"".join(requests), changes) + LAST_REQUEST,
    st.lists(valid_requests | doubtful_requests(), min_size=1, max_size=4),
    st.lists(mutations, max_size=3),
)
valid_streams = st.builds(lambda requests: b"".join(requests) + LAST_REQUEST, st.lists(valid_requests, max_size=5))
