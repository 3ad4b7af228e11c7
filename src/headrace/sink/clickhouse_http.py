"""ClickHouse asked over HTTP: each question a request of its own, ended as a whole after so long."""

import base64
import re
import ssl
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import orjson

from headrace.watch.post import PinnedConnection, post

ANSWER_SECONDS = 30.0
PORTS = {"http": 8123, "https": 8443}
DATABASE = "default"
_SAID = re.compile(r"Code: (\d+)\b.*?Exception: (.*)", re.DOTALL)
# What follows the first sentence: the same again, the error's name, where it was in its plan, and values of the row.
_MORE = re.compile(r"[.:,]* (e\.what|\([A-Z_]{4,}\)|\(version |\(in query|[Cc]olumn values: |[Ww]hile )|\n")
_LONGEST_SAID = 300


class Refused(Exception):
    """The server has answered, and said no."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code


class Server:
    """One server, as its address names it: http or https, host, port, and the database its tables are in."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("it is no address: write http://user:password@host:8123/database")
        self.place = parts.hostname, parts.port or PORTS[parts.scheme]
        self.database = unquote(parts.path.strip("/")) or DATABASE
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {"user-agent": "headrace", "connection": "close"}
        if parts.username is not None:
            who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["authorization"] = f"Basic {base64.b64encode(who.encode()).decode()}"

    def ask(self, statement: str, rows: bytes | None = None) -> bytes:
        """What a statement answers; rows that it inserts come after it."""
        path = "/" if rows is None else f"/?{urlencode({'query': statement})}"
        host, _ = self.place
        connection = PinnedConnection(self.place, lambda: [host], self._tls, ANSWER_SECONDS)
        answer = post(connection, path, statement.encode() if rows is None else rows, self._headers)
        if answer.status != 200 or answer.body.startswith(b"Code: "):
            raise refusal(answer.status, answer.body.decode(errors="replace"))
        return answer.body

    def rows(self, question: str) -> list[list[Any]]:
        """The rows of an answer."""
        found: list[list[Any]] = orjson.loads(self.ask(f"{question} FORMAT JSONCompact"))["data"]
        return found


def quoted(name: str) -> str:
    """A name as a statement has it.

    >>> quoted("a`b")
    '`a\\\\`b`'
    """
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def literal(text: str) -> str:
    """A text as a statement has it.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def refusal(status: int, body: str) -> Refused:
    """What the server says no with: its code, and its first sentence."""
    found = _SAID.search(body)
    if found is None:
        return Refused(0, f"it answered {status}")
    return Refused(int(found[1]), _MORE.split(found[2], maxsplit=1)[0][:_LONGEST_SAID].strip().rstrip("."))
