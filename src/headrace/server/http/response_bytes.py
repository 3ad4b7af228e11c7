"""Encodes a response as bytes of HTTP/1.1."""

from http import HTTPStatus

from headrace.server.http.responses import Response

STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


def encode_response(response: Response, date_header: bytes, keep_alive: bool, without_body: bool = False) -> bytes:
    """Encode head and body; a streamed body has no content-length, and a response to HEAD has no body."""
    extra_headers = b"".join([b"%b: %b\r\n" % header for header in response.headers]) if response.headers else b""
    return b"%bdate: %b\r\ncontent-type: %b\r\n%b%b%b\r\n%b" % (
        STATUS_LINES[response.status],
        date_header,
        response.content_type,
        b"content-length: %d\r\n" % len(response.body) if response.body_stream is None else b"",
        extra_headers,
        b"" if keep_alive else b"connection: close\r\n",
        b"" if without_body else response.body,
    )
