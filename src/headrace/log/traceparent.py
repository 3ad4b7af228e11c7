"""W3C's trace context: the header that says which trace a record or a request is part of, passed on as it came."""

import re

TRACEPARENT = "traceparent"
_WRITTEN = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
LENGTH = 55


def traceparent_of(value: bytes | None) -> bytes | None:
    """A header's value, if it is one.

    >>> traceparent_of(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    b'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    >>> traceparent_of(b"<script>") is traceparent_of(None) is None
    True
    """
    return value if value is not None and _WRITTEN.fullmatch(value) else None


def passed_on(trace: bytes | None) -> list[tuple[str, str | bytes]]:
    """The headers of a record that is made of another."""
    return [] if trace is None else [(TRACEPARENT, trace)]
