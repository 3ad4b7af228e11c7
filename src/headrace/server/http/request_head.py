"""Checks and rewrites the head of a request before it is routed."""

from collections.abc import Sequence
from urllib.parse import unquote

from headrace.server.http.responses import BadRequest, Header, HttpError, Response

# With two values, the server or a proxy before it could check one and use the other.
SINGLE_VALUE_HEADERS = frozenset({b"host", b"origin", b"authorization", b"sec-fetch-site", b"transfer-encoding"})
SINGLE_VALUE_LENGTHS = frozenset(map(len, SINGLE_VALUE_HEADERS))
SUPPORTED_VERSIONS = frozenset({"1.0", "1.1"})  # the parser also takes 0.9, without any version, and 2.0
# A server may ignore an Upgrade (RFC 9110, 7.8); Java's HttpClient offers h2c with every request.
UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings"})


class UnsupportedTransferCoding(HttpError):
    """The body has a transfer coding that is not supported; a proxy that decodes it would see another request."""

    status = 501

    def __init__(self, coding: bytes) -> None:
        text = coding[:200].decode("latin-1")
        super().__init__(f"Transfer-Encoding {text!r} is not supported. Send the body as it is, or in chunks.")


def find_head_error(version: str, headers: Sequence[Header]) -> Response | None:
    """The response to a head with another HTTP version, an encoded body, or a repeated header that must be single.

    >>> find_head_error("1.1", [(b"Host", b"x"), (b"Transfer-Encoding", b"Chunked")])
    >>> find_head_error("1.1", [(b"Host", b"x"), (b"Transfer-Encoding", b"gzip, chunked")]).status
    501
    """
    if version not in SUPPORTED_VERSIONS:
        return BadRequest(f"HTTP/{version} is not supported. Send HTTP/1.1.").response
    seen_headers = set()
    for name, value in headers:
        if len(name) in SINGLE_VALUE_LENGTHS and (lowered := name.lower()) in SINGLE_VALUE_HEADERS:
            if lowered in seen_headers:
                display_name = lowered.decode().title()
                return BadRequest(f"The header {display_name} is there more than once. Send it once.").response
            if lowered == b"transfer-encoding" and value.strip().lower() != b"chunked":
                return UnsupportedTransferCoding(value).response
            seen_headers.add(lowered)
    return None


def split_target(target: bytes) -> tuple[str, bytes]:
    """The path and the query of a request target; a proxy writes the whole URL.

    >>> split_target(b"http://there:80/features/Top%20cards?at=1")
    ('/features/Top cards', b'at=1')
    """
    if not target.startswith(b"/"):
        _, _, rest = target.partition(b"://")
        target = b"/" + rest.partition(b"/")[2]
    path, _, query = target.partition(b"?")
    path_text = path.decode(errors="replace")
    return unquote(path_text) if "%" in path_text else path_text, query


def head_without_upgrade(method: bytes, url: bytes, version: str, headers: Sequence[Header]) -> bytes:
    """The bytes of a head without its Upgrade headers.

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
