"""POST /login: a browser gives a token once and gets a cookie, for it cannot send a token with every look.

GET /session says whether it has one that is good, POST /logout ends it.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html import escape
from typing import Any, Protocol
from urllib.parse import parse_qs

from headrace.serve.answers import Answer, Header, json_answer

PATH, LOGOUT_PATH, SESSION_PATH = "/login", "/logout", "/session"
NOT_KEPT: Header = (b"cache-control", b"no-store")
LARGEST_FORM = 4096
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:24rem;margin:20vh auto;padding:0 1rem}"
    "input,button{font:inherit;width:100%;box-sizing:border-box;padding:.5rem;margin:.25rem 0}"
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Headrace</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<h1>Headrace</h1>
<form method="post" action="{path}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Look</button>
<p role="alert">{problem}</p>
</form>
<p>Make one where the server runs: <code>headrace token create NAME --scope read</code></p>
</body>
</html>
"""
POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Not no-referrer, as elsewhere: under it a browser says Origin: null, and a form of ours could not be told from others.
HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    NOT_KEPT,
)
Session = Callable[[str], Header | None]


class Form(Protocol):
    """What was sent."""

    @property
    def body(self) -> bytes: ...


def login_page(status: int, problem: str = "", more: tuple[Header, ...] = ()) -> Answer:
    """The form, and what was wrong with what was sent."""
    page = PAGE.format(style=STYLE, path=PATH, problem=escape(problem))
    return Answer(status, page.encode(), b"text/html; charset=utf-8", (*HEADERS, *more))


class Login:
    """Gives a session for a token."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __call__(self, request: Form) -> Answer:
        fields = parse_qs(request.body[:LARGEST_FORM].decode("latin-1"))
        cookie = self._session(fields.get("token", [""])[-1])
        if cookie is None:
            return login_page(401, "This token is not known here, or was revoked.")
        return Answer(303, b"", b"text/plain", ((b"location", b"/"), NOT_KEPT, cookie))


class Logout:
    """Ends a session: on the server, whatever the browser keeps."""

    def __init__(self, end: Callable[[Any], Header]) -> None:
        self._end = end

    async def __call__(self, request: Form) -> Answer:
        # It is written down, which may take a disk a while.
        forgotten = await asyncio.to_thread(self._end, request)
        return _said(False, forgotten)


class LoggedIn:
    """Says whether a browser has a session that is good."""

    def __init__(self, has_one: Callable[[Any], bool]) -> None:
        self._has_one = has_one

    async def __call__(self, request: object) -> Answer:
        return _said(self._has_one(request))


def _said(has_one: bool, *more: Header) -> Answer:
    return json_answer({"session": has_one})._replace(headers=(NOT_KEPT, *more))
