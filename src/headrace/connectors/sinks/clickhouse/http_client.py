"""A client for ClickHouse over HTTP: one connection and one timeout per request."""

import base64
import re
import ssl
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import orjson

from headrace.telemetry.webhooks.pinned_post import PinnedConnection, post

RESPONSE_TIMEOUT_SECONDS = 30.0
DEFAULT_PORTS = {"http": 8123, "https": 8443}
DEFAULT_DATABASE = "default"
_ERROR_PATTERN = re.compile(r"Code: (\d+)\b.*?Exception: (.*)", re.DOTALL)
# What follows the first sentence: a repetition, the error's name, its position in the query plan, and row values.
_DETAIL_PATTERN = re.compile(r"[.:,]* (e\.what|\([A-Z_]{4,}\)|\(version |\(in query|[Cc]olumn values: |[Ww]hile )|\n")
_MAX_MESSAGE_LENGTH = 300


class ClickHouseRefused(Exception):
    """The server rejected a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ClickHouseClient:
    """A client of one server; the address gives http or https, host, port, credentials and database."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ValueError("it is no address: write http://user:password@host:8123/database")
        self.host_and_port = parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]
        self.database = unquote(parts.path.strip("/")) or DEFAULT_DATABASE
        self._tls_context = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {"user-agent": "headrace", "connection": "close"}
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"

    def execute(self, statement: str, rows: bytes | None = None) -> bytes:
        """Execute a statement and return its response; `rows` is the body of an INSERT."""
        path = "/" if rows is None else f"/?{urlencode({'query': statement})}"
        host, _ = self.host_and_port
        connection = PinnedConnection(self.host_and_port, lambda: [host], self._tls_context, RESPONSE_TIMEOUT_SECONDS)
        response = post(connection, path, statement.encode() if rows is None else rows, self._headers)
        if response.status != 200 or response.body.startswith(b"Code: "):
            raise parse_error(response.status, response.body.decode(errors="replace"))
        return response.body

    def query_rows(self, query: str) -> list[list[Any]]:
        """The rows of a query."""
        rows: list[list[Any]] = orjson.loads(self.execute(f"{query} FORMAT JSONCompact"))["data"]
        return rows


def quote_identifier(name: str) -> str:
    """Quote a name for a statement.

    >>> quote_identifier("a`b")
    '`a\\\\`b`'
    """
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def quote_string(text: str) -> str:
    """Quote a text for a statement.

    >>> quote_string("it's")
    "'it\\\\'s'"
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def parse_error(status: int, body: str) -> ClickHouseRefused:
    """The code and the first sentence of an error response."""
    error_match = _ERROR_PATTERN.search(body)
    if error_match is None:
        return ClickHouseRefused(0, f"it answered {status}")
    return ClickHouseRefused(
        int(error_match[1]),
        _DETAIL_PATTERN.split(error_match[2], maxsplit=1)[0][:_MAX_MESSAGE_LENGTH].strip().rstrip("."),
    )
