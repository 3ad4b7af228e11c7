"""POST /login: a browser exchanges a token for a session cookie, since it cannot send a token with every request.

GET /session says whether the session is valid, POST /logout ends it.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html import escape
from typing import Any, Protocol
from urllib.parse import parse_qs

from headrace.server.http.responses import Header, Response, json_response

LOGIN_PATH, LOGOUT_PATH, SESSION_PATH = "/login", "/logout", "/session"
NO_STORE: Header = (b"cache-control", b"no-store")
MAX_FORM_BYTES = 4096
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
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Not no-referrer, as elsewhere: with it a browser sends Origin: null, and our form is like any other.
PAGE_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    NO_STORE,
)
CreateSession = Callable[[str], Header | None]


class FormRequest(Protocol):
    """The request with the form."""

    @property
    def body(self) -> bytes: ...


def login_page(status: int, problem: str = "", extra_headers: tuple[Header, ...] = ()) -> Response:
    """The login form, with the error of the last attempt."""
    page = PAGE.format(style=STYLE, path=LOGIN_PATH, problem=escape(problem))
    return Response(status, page.encode(), b"text/html; charset=utf-8", (*PAGE_HEADERS, *extra_headers))


class LoginHandler:
    """Creates a session for a token."""

    def __init__(self, create_session: CreateSession) -> None:
        self._create_session = create_session

    async def __call__(self, request: FormRequest) -> Response:
        fields = parse_qs(request.body[:MAX_FORM_BYTES].decode("latin-1"))
        cookie = self._create_session(fields.get("token", [""])[-1])
        if cookie is None:
            return login_page(401, "The token is unknown, or was revoked.")
        return Response(303, b"", b"text/plain", ((b"location", b"/"), NO_STORE, cookie))


class LogoutHandler:
    """Ends a session on the server, whatever the browser keeps."""

    def __init__(self, end_session: Callable[[Any], Header]) -> None:
        self._end_session = end_session

    async def __call__(self, request: FormRequest) -> Response:
        # This writes to a file, which may take a while.
        expired_cookie = await asyncio.to_thread(self._end_session, request)
        return _session_response(False, expired_cookie)


class SessionStatusHandler:
    """Says whether a browser has a valid session."""

    def __init__(self, has_session: Callable[[Any], bool]) -> None:
        self._has_session = has_session

    async def __call__(self, request: object) -> Response:
        return _session_response(self._has_session(request))


def _session_response(has_session: bool, *extra_headers: Header) -> Response:
    return json_response({"session": has_session})._replace(headers=(NO_STORE, *extra_headers))
