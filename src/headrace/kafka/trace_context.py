"""W3C trace context: the header that names the trace of a record or a request, passed on unchanged."""

import re

TRACEPARENT = "traceparent"
_TRACEPARENT_PATTERN = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
TRACEPARENT_LENGTH = 55


def parse_traceparent(value: bytes | None) -> bytes | None:
    """A header's value, if it is valid.

    >>> parse_traceparent(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    b'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    >>> parse_traceparent(b"<script>") is parse_traceparent(None) is None
    True
    """
    return value if value is not None and _TRACEPARENT_PATTERN.fullmatch(value) else None
