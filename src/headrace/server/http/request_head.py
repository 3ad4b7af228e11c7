"""What is checked and changed in the head of a request before anything else looks at it."""

from collections.abc import Sequence

from headrace.server.http.responses import BadRequest, Header, Response

# Of two values one would be checked and the other believed, by us or by a proxy before us.
SINGLE_VALUE_HEADERS = frozenset({b"host", b"origin", b"authorization", b"sec-fetch-site"})
SINGLE_VALUE_LENGTHS = frozenset(map(len, SINGLE_VALUE_HEADERS))
# A server may ignore what it does not speak (RFC 9110, 7.8); Java's HttpClient offers h2c with every request.
UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings"})


def reject_repeated_header(headers: Sequence[Header]) -> Response | None:
    """The refusal of a head that has a header twice which may be there once."""
    seen_headers = set()
    for name, _ in headers:
        if len(name) in SINGLE_VALUE_LENGTHS and (lowered := name.lower()) in SINGLE_VALUE_HEADERS:
            if lowered in seen_headers:
                display_name = lowered.decode().title()
                return BadRequest(f"The header {display_name} is there more than once. Send it once.").response
            seen_headers.add(lowered)
    return None


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: Sequence[Header]) -> bytes:
    """The bytes of a head that offers no other protocol.

    >>> offered = [(b"Host", b"x"), (b"Connection", b"Upgrade, HTTP2-Settings"), (b"Upgrade", b"h2c")]
    >>> head_without_upgrade(b"GET", b"/", "1.1", offered)
    b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'
    """
    remaining_headers = [header for name, value in headers if (header := _strip_upgrade(name, value)) is not None]
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode()), *(b"%b: %b" % header for header in remaining_headers)]
    return b"\r\n".join([*lines, b"", b""])


def _strip_upgrade(name: bytes, value: bytes) -> Header | None:
    lowered = name.lower()
    if lowered in UPGRADE_HEADERS:
        return None
    if lowered != b"connection":
        return name, value
    options = [option for part in value.split(b",") if (option := part.strip()).lower() not in UPGRADE_HEADERS]
    return (name, b", ".join(options)) if options else None
