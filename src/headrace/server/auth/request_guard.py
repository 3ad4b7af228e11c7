"""Authentication and authorization: checks each request before its route runs.

host ──▶ origin ──▶ token, session or signed token ──▶ scope of the route ──▶ rate
 403      403      401                        403                    429

Without tokens, on a loopback address, any local process may send requests; another Host or Origin is still rejected.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from headrace.errors import HeadraceError
from headrace.server.auth.access_config import AccessConfig
from headrace.server.auth.api_tokens import ApiToken, hash_token, read_tokens, tokens_file
from headrace.server.auth.login import login_page
from headrace.server.auth.origin_check import OriginPolicy, OriginRefused
from headrace.server.auth.rate_limit import AddressRateLimiter, TokenBucket, client_network
from headrace.server.auth.scopes import Scope, expand_scopes
from headrace.server.auth.sessions import SESSION_SECONDS, BrowserSession, SessionManager
from headrace.server.auth.signed_tokens import TokenPurpose, TokenSigner
from headrace.server.http.admission_control import RETRY_AFTER_SECONDS, RequestArrival
from headrace.server.http.responses import BodyStream, Forbidden, Header, HttpError, Response, SendChunk, Unauthorized

POLL_SECONDS = 1.0
ANONYMOUS_REQUESTS_PER_SECOND = 50.0
MAX_CACHED_PRINCIPALS = 1000
MAX_ADDRESS_CHARS = 64
SAFE_METHODS = {"GET", "HEAD"}
BEARER_PREFIX = b"bearer "
CHALLENGE = b'Bearer realm="headrace"'
INTERNAL_CLIENT = "own"
FETCH_SITE, FETCH_MODE = b"sec-fetch-site", b"sec-fetch-mode"
# The site that made the browser send this: our own, or none. A client without the header is no browser.
TRUSTED_FETCH_SITES: set[bytes | None] = {None, b"same-origin", b"none"}
# By length: most headers need no further check.
INSPECTED_HEADER_LENGTHS = {
    len(name)
    for name in (b"host", b"origin", b"cookie", b"authorization", b"x-forwarded-for", b"accept", FETCH_SITE, FETCH_MODE)
}
LOGGER = logging.getLogger("headrace.serve")


class RequestHead(Protocol):
    """A request before its body has arrived."""

    @property
    def method(self) -> str: ...
    @property
    def headers(self) -> Iterable[Header]: ...
    @property
    def arrival(self) -> RequestArrival: ...
    @property
    def address(self) -> str: ...


class GuardConfig(NamedTuple):
    """Where a server is: its state folder, its address, and whether other machines can reach it."""

    state: Path
    host: str
    port: int
    is_reachable: bool


class RateLimitExceeded(HttpError):
    """A client has exceeded its rate limit."""

    status = 429
    headers = ((b"retry-after", b"%d" % RETRY_AFTER_SECONDS),)

    def __init__(self, requests_per_second: float, advice: str) -> None:
        super().__init__(
            f"More than {requests_per_second:g} requests a second. Ask again in {RETRY_AFTER_SECONDS} s, or {advice}."
        )


class AuthenticationRequired(Unauthorized):
    """No token, or an unknown one; a browser gets the login form."""

    def __init__(self, reason: str, is_browser: bool) -> None:
        super().__init__(
            f"{reason} Send Authorization: Bearer hr_…; headrace token create NAME --scope read makes one."
        )
        self.headers = ((b"www-authenticate", CHALLENGE),)
        self._is_browser = is_browser

    @property
    def response(self) -> Response:
        return login_page(self.status, "", self.headers) if self._is_browser else super().response


class ScopeMissing(Forbidden):
    """A token without the scope of the route."""

    def __init__(self, scope: Scope, principal: "Principal") -> None:
        held_scopes = ", ".join(sorted(principal.scopes))
        super().__init__(
            f"This needs the scope {scope}, and the token {principal.name!r} has {held_scopes}. Ask with another token."
        )
        self.headers = ((b"www-authenticate", CHALLENGE + f', error="insufficient_scope", scope="{scope}"'.encode()),)


class Principal(NamedTuple):
    """An authenticated client: the name of the token, its scopes and its rate limit."""

    name: str
    scopes: frozenset[Scope]
    bucket: TokenBucket


UNLIMITED_BUCKET = TokenBucket(1e18, 0.0)
ANONYMOUS = Principal("anybody", frozenset({Scope.OPEN}), UNLIMITED_BUCKET)


class RequestGuard:
    """Authenticates and authorizes requests; reloads the token file, so that a revoked token soon fails."""

    def __init__(self, config: GuardConfig, access: AccessConfig) -> None:
        self._state, self._access = config.state, access
        self._origin_policy = OriginPolicy(config.host, access.allowed_hosts)
        self._token_signer = TokenSigner.from_state_folder(config.state)
        self._sessions = SessionManager(config.state, self._token_signer)
        self._internal_principal = Principal(INTERNAL_CLIENT, frozenset({Scope.READ}), UNLIMITED_BUCKET)
        self._cookie_name = f"headrace_{config.port}"
        self._principals_by_digest: dict[bytes, Principal] = {}
        self._principals_by_header: dict[bytes, Principal] = {}
        self._anonymous_limiter = AddressRateLimiter(ANONYMOUS_REQUESTS_PER_SECOND)
        self._requires_token = config.is_reachable or access.is_behind_proxy
        self._loaded_stamp = self._token_file_stamp()
        self._replace_principals(read_tokens(config.state))

    @property
    def is_behind_proxy(self) -> bool:
        return self._access.is_behind_proxy

    def authorize(self, request: RequestHead, scope: Scope) -> None:
        """Reject a request that is not allowed."""
        headers = _inspected_headers(request.headers)
        if (
            b"origin" in headers
            or FETCH_SITE in headers
            or headers.get(b"host") not in self._origin_policy.accepted_hosts
        ):
            self._require_origin(request, scope, headers)
        if not self._requires_token:
            return
        principal = self._principals_by_header.get(headers.get(b"authorization", b""))
        if principal is None or scope not in principal.scopes:
            principal = self._authenticate(request, scope, headers)
        if not principal.bucket.try_acquire(request.arrival.arrived_at):
            raise RateLimitExceeded(self._access.requests_per_second, "let the server be started with a higher --rate")

    def is_authorized(self, request: RequestHead, scope: Scope) -> bool:
        """Whether a request is allowed; does not count against the rate limit."""
        headers = _inspected_headers(request.headers)
        try:
            self._require_origin(request, scope, headers)
            if self._requires_token and scope is not Scope.OPEN:
                self._require_scope(request, scope, headers)
        except HttpError:
            return False
        return True

    def create_session(self, token: str) -> Header | None:
        """A session cookie for a valid token."""
        digest = hash_token(token.strip().encode())
        if digest not in self._principals_by_digest:
            return None
        return self._session_cookie(self._sessions.create(digest), SESSION_SECONDS)

    def find_session(self, request: RequestHead) -> BrowserSession | None:
        """The session of a browser's request."""
        return self._sessions.verify(
            _read_cookie(_inspected_headers(request.headers).get(b"cookie", b""), self._cookie_name)
        )

    def end_session(self, request: RequestHead) -> Header:
        """End the session of a browser's request, if it has one; returns the header that clears its cookie."""
        session = self.find_session(request)
        if session is not None:
            self._sessions.end(session)
        return self._session_cookie("", 0)

    def _session_cookie(self, value: str, max_age_seconds: int) -> Header:
        secure_attribute = "; Secure" if self._access.is_encrypted else ""
        cookie = (
            f"{self._cookie_name}={value}; Path=/; Max-Age={max_age_seconds}; HttpOnly; "
            f"SameSite=Strict{secure_attribute}"
        )
        return b"set-cookie", cookie.encode()

    async def watch_tokens(self) -> None:
        """Poll the token file, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Reload the tokens if their file has changed; without a readable file no token is valid."""
        try:
            self._sessions.reload_if_changed()
        except (HeadraceError, OSError) as problem:
            LOGGER.error("Could not read the ended sessions: %s", problem)
        stamp = self._token_file_stamp()
        if stamp == self._loaded_stamp:
            return
        self._loaded_stamp = stamp
        try:
            self._replace_principals(read_tokens(self._state))
        except (HeadraceError, OSError) as problem:
            LOGGER.error("Could not read the tokens, rejects every token: %s", problem)
            self._requires_token, self._principals_by_digest, self._principals_by_header = True, {}, {}

    def _token_file_stamp(self) -> tuple[int, ...] | None:
        """Changes whenever the token file does; None where there is none, empty where it cannot be accessed."""
        try:
            file_stat = tokens_file(self._state).stat()
        except FileNotFoundError:
            return None
        except OSError:
            return ()
        return file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_ctime_ns, file_stat.st_size

    def _replace_principals(self, tokens: Iterable[ApiToken]) -> None:
        """Replace the tokens; once there was a token file, this process requires a token until it ends."""
        now, previous = time.perf_counter(), self._principals_by_digest
        self._requires_token, self._principals_by_header = self._requires_token or self._loaded_stamp is not None, {}
        self._principals_by_digest = {
            token.digest: Principal(
                token.name,
                expand_scopes(token.scopes),
                previous[token.digest].bucket
                if token.digest in previous
                else TokenBucket(self._access.requests_per_second, now),
            )
            for token in tokens
        }

    def _require_origin(self, request: RequestHead, scope: Scope, headers: dict[bytes, bytes]) -> None:
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if host is not None:  # a browser always sends it
            self._origin_policy.require_host(host)
        is_public = scope is Scope.OPEN and request.method in SAFE_METHODS
        if is_public:
            return
        if origin is not None:
            self._origin_policy.require_origin(origin, host)
        if headers.get(FETCH_SITE) not in TRUSTED_FETCH_SITES and not self._is_cross_site_allowed(request, headers):
            raise OriginRefused(
                "A page of another site may not ask this server. Ask from a page of its own, or without one."
            )

    def _is_cross_site_allowed(self, request: RequestHead, headers: dict[bytes, bytes]) -> bool:
        """Whether a cross-site request is allowed: from a configured origin, or as a link to our page."""
        is_link = request.method in SAFE_METHODS and headers.get(FETCH_MODE) == b"navigate"
        return is_link or self._origin_policy.is_allowed_origin(headers.get(b"origin", b""))

    def _authenticate(self, request: RequestHead, scope: Scope, headers: dict[bytes, bytes]) -> Principal:
        """The client of a request; unauthenticated clients share the anonymous rate limit of their address."""
        if scope is Scope.OPEN:
            self._limit_anonymous_rate(request, headers)
            return ANONYMOUS
        try:
            return self._require_scope(request, scope, headers)
        except Unauthorized:
            self._limit_anonymous_rate(request, headers)
            raise

    def _require_scope(self, request: RequestHead, scope: Scope, headers: dict[bytes, bytes]) -> Principal:
        is_browser = request.method in SAFE_METHODS and b"text/html" in headers.get(b"accept", b"")
        authorization, session_token = (
            headers.get(b"authorization"),
            _read_cookie(headers.get(b"cookie", b""), self._cookie_name),
        )
        if authorization is None and not session_token:
            raise AuthenticationRequired("This server wants a token.", is_browser)
        principal = (
            self._find_by_session(session_token, request, headers)
            if authorization is None
            else self._find_by_bearer_token(authorization)
        )
        if principal is None:
            raise AuthenticationRequired("The token is unknown, or has expired.", is_browser)
        if scope not in principal.scopes:
            raise ScopeMissing(scope, principal)
        return principal

    def _find_by_bearer_token(self, authorization: bytes) -> Principal | None:
        if authorization[: len(BEARER_PREFIX)].lower() != BEARER_PREFIX:
            return None
        token = authorization[len(BEARER_PREFIX) :].strip()
        # Looked up by its hash, so that the duration reveals nothing about any token. Found ones are cached by header.
        principal = self._principals_by_digest.get(hash_token(token))
        if principal is None:
            return self._find_by_signed_token(token)
        if len(self._principals_by_header) < MAX_CACHED_PRINCIPALS:
            self._principals_by_header[authorization] = principal
        return principal

    def _find_by_signed_token(self, token: bytes) -> Principal | None:
        subject = self._token_signer.verify(TokenPurpose.INTERNAL, token.decode("latin-1"), time.time())
        return self._internal_principal if subject == INTERNAL_CLIENT else None

    def _find_by_session(
        self, session_token: str, request: RequestHead, headers: dict[bytes, bytes]
    ) -> Principal | None:
        """A browser sends its cookie with requests of any page: a request that changes state must be from our page."""
        if request.method not in SAFE_METHODS and b"origin" not in headers:
            raise OriginRefused(
                "A session is valid only for pages of this server, which send an Origin. Use a token instead."
            )
        browser_session = self._sessions.verify(session_token)
        return None if browser_session is None else self._principals_by_digest.get(browser_session.token_digest)

    def _limit_anonymous_rate(self, request: RequestHead, headers: dict[bytes, bytes]) -> None:
        """Limit unauthenticated requests by address; behind a proxy it is the last one of X-Forwarded-For."""
        forwarded_for = headers.get(b"x-forwarded-for", b"") if self._access.is_behind_proxy else b""
        address = forwarded_for.rpartition(b",")[2].strip()[:MAX_ADDRESS_CHARS].decode("latin-1") or request.address
        if not self._anonymous_limiter.try_acquire(client_network(address), request.arrival.arrived_at):
            raise RateLimitExceeded(ANONYMOUS_REQUESTS_PER_SECOND, "with a token")


def stream_while_allowed(body_stream: BodyStream, is_allowed: Callable[[], bool]) -> BodyStream:
    """The stream, until its client is no longer authorized."""

    def guarded_stream(send_chunk: SendChunk) -> None:
        body_stream(lambda chunk: send_chunk(chunk if is_allowed() else None))

    return guarded_stream


def _inspected_headers(headers: Iterable[Header]) -> dict[bytes, bytes]:
    found_headers = {}
    for name, value in headers:
        if len(name) in INSPECTED_HEADER_LENGTHS:
            found_headers[name.lower()] = value
    return found_headers


def _read_cookie(cookie_header: bytes, name: str) -> str:
    """The value of a cookie, or nothing; other cookies of this host are skipped."""
    pairs = (pair.strip().partition("=") for pair in cookie_header.decode("latin-1").split(";"))
    return next((value for cookie_name, _, value in pairs if cookie_name == name), "")
