"""HTTP responses, and errors of one sentence each.

HeadraceError
└── HttpError
    ├── BadRequest            400   the request is malformed
    ├── Unauthorized          401   the request has no valid token
    ├── Forbidden             403   the client has no permission for this request
    ├── NotFound              404   there is no such path or view
    ├── MethodNotAllowed      405   the path does not support the method
    ├── PayloadTooLarge       413   more bytes, keys or events than one request may have
    ├── UnsupportedMediaType  415   the content type of the body is not supported
    ├── ServerOverloaded      429   more requests than the server can answer (in `admission_control`)
    └── ServiceUnavailable    503   the server, or its store, cannot answer now
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


# Sends a chunk to the client, or with None closes the stream; returns whether the client is still connected.
SendChunk = Callable[[bytes | None], bool]
# Starts a stream to a client; it ends when sending a chunk returns False.
BodyStream = Callable[[SendChunk], None]


class Response(NamedTuple):
    """A status, a body and its content type; one with a `body_stream` sends chunks after the head instead."""

    status: int
    body: bytes
    content_type: bytes = JSON_CONTENT_TYPE
    headers: tuple[Header, ...] = ()
    body_stream: BodyStream | None = None


class HttpError(HeadraceError):
    """A request that fails; the message is the error in the response."""

    status = 500
    headers: tuple[Header, ...] = ()

    @property
    def response(self) -> Response:
        return Response(self.status, orjson.dumps({"error": str(self)}), headers=self.headers)


class BadRequest(HttpError):
    """The request is malformed."""

    status = 400


class Unauthorized(HttpError):
    """The request has no valid token."""

    status = 401


class Forbidden(HttpError):
    """The client has no permission for this request."""

    status = 403


class NotFound(HttpError):
    """There is no such path or view."""

    status = 404


class MethodNotAllowed(HttpError):
    """The path does not support the method."""

    status = 405

    def __init__(self, method: str, path: str, allowed: str) -> None:
        super().__init__(f"{path} is not asked with {method}. Use {allowed}.")
        self.headers = ((b"allow", allowed.encode()),)


class PayloadTooLarge(HttpError):
    """More bytes or keys than one request may have."""

    status = 413


class UnsupportedMediaType(HttpError):
    """The content type of the body is not supported."""

    status = 415


class ServiceUnavailable(HttpError):
    """The server, or its store, cannot answer now."""

    status = 503


def parse_json(body: bytes, example: str) -> Any:
    """Parse a JSON body; the error of an invalid one shows an example."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise BadRequest(f"The body is not JSON: {problem}. Write {example}.") from problem
    require_shallow_json(body, content)
    return content


def require_shallow_json(body: bytes, content: Any) -> None:
    """Reject JSON that is nested too deeply to be encoded again, in an error message or for the gate's parser.

    orjson decodes 1024 levels and encodes 254: the check wraps the content in the difference to the limit and encodes
    it. Few bodies have enough brackets to need the check.
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
    """A response in JSON; times are ISO 8601 with Z."""
    return Response(status, encode_json(content))


def encode_json(content: Any) -> bytes:
    """Encode values as JSON; orjson is limited to 64-bit integers, but sums can be larger."""
    try:
        return orjson.dumps(content, option=orjson.OPT_UTC_Z)
    except TypeError:
        return json.dumps(content, default=_to_iso_text, separators=(",", ":")).encode()


def non_finite_to_text(value: float) -> str:
    """The text of a double that JSON cannot express."""
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _to_iso_text(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} cannot be written as JSON")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
