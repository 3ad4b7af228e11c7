"""An answer as bytes of HTTP/1.1."""

from http import HTTPStatus

from headrace.serve.answers import Answer

STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}


def response_bytes(answer: Answer, date: bytes, keeps: bool, without_body: bool = False) -> bytes:
    """The head and the body; one that flows has no length, and what follows a HEAD has no body."""
    more = b"".join([b"%b: %b\r\n" % header for header in answer.headers]) if answer.headers else b""
    return b"%bdate: %b\r\ncontent-type: %b\r\n%b%b%b\r\n%b" % (
        STATUS_LINES[answer.status],
        date,
        answer.content_type,
        b"content-length: %d\r\n" % len(answer.body) if answer.flows is None else b"",
        more,
        b"" if keeps else b"connection: close\r\n",
        b"" if without_body else answer.body,
    )
