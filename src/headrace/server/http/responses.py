"""What the server says: answers, and refusals of one sentence each.

HeadraceError
└── Refused
    ├── BadRequest        400   the request cannot be understood
    ├── Unauthorized      401   nobody is let in without a token, and there is none
    ├── Forbidden         403   whoever asks may not
    ├── NotFound          404   there is no such path or view
    ├── WrongMethod       405   the path is asked another way
    ├── TooLarge          413   more bytes, keys or events than one request may have
    ├── WrongType         415   the body is no JSON, and says so
    ├── TooMany           429   more requests than the server can answer (in serve/overload.py)
    └── Unavailable       503   the server, or its store, cannot answer now
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from math import isnan
from typing import Any, NamedTuple

import orjson

from headrace.errors import HeadraceError

Header = tuple[bytes, bytes]

JSON_CONTENT_TYPE = b"application/json"
MAX_JSON_DEPTH, MAX_ENCODED_DEPTH = 200, 254


# Tells one who listens a piece, or with None that it is over; gives whether there is still somebody.
SendChunk = Callable[[bytes | None], bool]
# Lets somebody listen, until telling says that nobody is there.
BodyStream = Callable[[SendChunk], None]


class Response(NamedTuple):
    """A status, a body and what the body is; one that `flows` has no end, and comes in pieces instead."""

    status: int
    body: bytes
    content_type: bytes = JSON_CONTENT_TYPE
    headers: tuple[Header, ...] = ()
    body_stream: BodyStream | None = None


class HttpError(HeadraceError):
    """A request that gets no answer; the message is what the client is told."""

    status = 500
    headers: tuple[Header, ...] = ()

    @property
    def response(self) -> Response:
        return Response(self.status, orjson.dumps({"error": str(self)}), headers=self.headers)


class BadRequest(HttpError):
    """The request cannot be understood."""

    status = 400


class Unauthorized(HttpError):
    """Nobody is let in without a token."""

    status = 401


class Forbidden(HttpError):
    """Whoever asks may not."""

    status = 403


class NotFound(HttpError):
    """There is no such path or view."""

    status = 404


class MethodNotAllowed(HttpError):
    """The path is asked with another method."""

    status = 405

    def __init__(self, method: str, path: str, allowed: str) -> None:
        super().__init__(f"{path} is not asked with {method}. Use {allowed}.")
        self.headers = ((b"allow", allowed.encode()),)


class PayloadTooLarge(HttpError):
    """More bytes or keys than one request may have."""

    status = 413


class UnsupportedMediaType(HttpError):
    """The body is of a type that is not read."""

    status = 415


class ServiceUnavailable(HttpError):
    """The server, or its store, cannot answer now."""

    status = 503


def parse_json(body: bytes, example: str) -> Any:
    """What a body says in JSON; one that says nothing is told what to write instead."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise BadRequest(f"The body is not JSON: {problem}. Write {example}.") from problem
    require_shallow_json(body, content)
    return content


def require_shallow_json(body: bytes, content: Any) -> None:
    """Refuse JSON that is nested so deeply that it could not be written again, in a sentence or for the gate's reader.

    orjson reads 1024 levels and writes 254: so many more are put around it. Few bodies open enough to be tried.
    """
    if body.count(b"[") + body.count(b"{") <= MAX_JSON_DEPTH:
        return
    for _ in range(MAX_ENCODED_DEPTH - MAX_JSON_DEPTH):
        content = [content]
    try:
        orjson.dumps(content)
    except TypeError:
        raise BadRequest(f"The body is nested too deeply. Write at most {MAX_JSON_DEPTH} levels.") from None


def json_response(content: Any, status: int = 200) -> Response:
    """An answer in JSON; moments are ISO 8601 with Z."""
    return Response(status, encode_json(content))


def encode_json(content: Any) -> bytes:
    """JSON text of any values of ours; orjson stops at 64 bits, sums of integers do not."""
    try:
        return orjson.dumps(content, option=orjson.OPT_UTC_Z)
    except TypeError:
        return json.dumps(content, default=_to_iso_text, separators=(",", ":")).encode()


def non_finite_to_text(value: float) -> str:
    """A double for which JSON has no word."""
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _to_iso_text(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} cannot be written as JSON")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
