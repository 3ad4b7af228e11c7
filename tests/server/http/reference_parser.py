"""A second HTTP/1.1 parser for the same bytes: h11, which shares no code with httptools."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import h11

MAX_EVENT_BYTES = 1 << 20
# They show in the body, or are taken out before a handler sees the head.
FRAMING_HEADERS = frozenset(
    {b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"http2-settings", b"expect"}
)
# What a server may take and ours does (RFC 9112, 2.2 and 3): empty lines before a request, more spaces within its line.
EMPTY_LINES, REQUEST_LINE = re.compile(rb"\A[\r\n]+"), re.compile(rb"\A([A-Z]+) +([^ \r\n]+) +(?=HTTP/)")
NO_HOST = b"host: none\r\n"


class RequestFacts(NamedTuple):
    """A request as a handler sees it."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: str


@dataclass
class Reading:
    """The requests in some bytes, and how the bytes end: with one that ends the connection, or malformed."""

    requests: list[RequestFacts] = field(default_factory=list)
    is_over: bool = False
    problem: str = ""


def visible_headers(headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers whose text a handler may act on."""
    return tuple(
        (name.lower().decode("latin-1"), value.strip(b" \t").decode("latin-1"))
        for name, value in headers
        if name.lower() not in FRAMING_HEADERS
    )


def read_requests(sent: bytes) -> Reading:
    """Read as h11 does, each request being answered before the next."""
    reading = Reading()
    remaining: bytes | None = sent
    while remaining and not reading.problem:
        remaining = _read_one(REQUEST_LINE.sub(rb"\1 \2 ", EMPTY_LINES.sub(b"", remaining)), reading)
    return reading


def _read_one(sent: bytes, reading: Reading) -> bytes | None:
    """Add the first request of some bytes; gives the bytes after it, if another may follow."""
    connection = h11.Connection(h11.SERVER, MAX_EVENT_BYTES)
    connection.receive_data(sent)
    try:
        request = _next_request(connection)
    except h11.RemoteProtocolError as problem:
        if "Missing mandatory Host" in str(problem):  # a server should refuse that, ours leaves it to its guard
            first_line, _, rest = sent.partition(b"\r\n")
            return _read_one(first_line + b"\r\n" + NO_HOST + rest, reading)
        reading.problem = str(problem)
        return None
    if request is None:
        return None
    reading.requests.append(request)
    if request.method != "CONNECT":
        connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        connection.send(h11.EndOfMessage())
    reading.is_over = connection.our_state is not h11.DONE or connection.their_state is not h11.DONE
    return None if reading.is_over else connection.trailing_data[0]


def _next_request(connection: h11.Connection) -> RequestFacts | None:
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            head = event
            if head.method == b"CONNECT":  # a tunnel is refused, and nothing after its head is read
                return _facts(head, b"")
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return _facts(head, body)
        else:
            return None


def _facts(head: h11.Request, body: bytes) -> RequestFacts:
    headers = [header for header in visible_headers(list(head.headers)) if header != ("host", "none")]
    return RequestFacts(head.method.decode(), head.target.decode("latin-1"), tuple(headers), body.decode("latin-1"))
