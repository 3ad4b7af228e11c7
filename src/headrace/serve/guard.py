"""Who may ask: each request is looked at before its route is.

name ──▶ page ──▶ token, session or pass ──▶ scope of the route ──▶ rate
 403      403      401                        403                    429

Without tokens, on a loopback address, everybody on this machine may ask; a name or a page of others is refused even so.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from headrace.errors import HeadraceError
from headrace.serve.access import Access
from headrace.serve.answers import Answer, Flow, Forbidden, Header, Refused, Tell, Unauthorized
from headrace.serve.login import login_page
from headrace.serve.overload import RETRY_SECONDS, Came
from headrace.serve.passes import Passes, Purpose
from headrace.serve.rates import Bucket, Buckets, neighbourhood
from headrace.serve.scopes import Scope, reach_of
from headrace.serve.sessions import SESSION_SECONDS, Session, Sessions
from headrace.serve.sites import OtherSite, Sites
from headrace.serve.tokens import Token, digest_of, read_tokens, tokens_file

LOOK_SECONDS = 1.0
STRANGERS_A_SECOND = 50.0
MOST_REMEMBERED = 1000
LONGEST_ADDRESS = 64
SAFE_METHODS = {"GET", "HEAD"}
BEARER = b"bearer "
CHALLENGE = b'Bearer realm="headrace"'
OWN = "own"
FETCH_SITE, FETCH_MODE = b"sec-fetch-site", b"sec-fetch-mode"
# Which page made the browser ask: one of this very server or none at all. Whoever does not say it is no browser.
OWN_FETCHES: set[bytes | None] = {None, b"same-origin", b"none"}
# By their length: most headers need no second look.
WANTED = {
    len(name)
    for name in (b"host", b"origin", b"cookie", b"authorization", b"x-forwarded-for", b"accept", FETCH_SITE, FETCH_MODE)
}
LOGGER = logging.getLogger("headrace.serve")


class Head(Protocol):
    """What is known of a request before its body has come."""

    @property
    def method(self) -> str: ...
    @property
    def headers(self) -> Iterable[Header]: ...
    @property
    def came(self) -> Came: ...
    @property
    def address(self) -> str: ...


class GuardPlace(NamedTuple):
    """Where a server is: its state folder, its address, and whether other machines can reach it."""

    state: Path
    host: str
    port: int
    is_reachable: bool


class TooOften(Refused):
    """One who asks has asked more often than may be."""

    status = 429
    headers = ((b"retry-after", b"%d" % RETRY_SECONDS),)

    def __init__(self, rate: float, instead: str) -> None:
        super().__init__(f"More than {rate:g} requests a second. Ask again in {RETRY_SECONDS} s, or {instead}.")


class NoToken(Unauthorized):
    """No token, or one that is not known; a browser is shown where to enter one."""

    def __init__(self, why: str, is_browser: bool) -> None:
        super().__init__(f"{why} Send Authorization: Bearer hr_…; headrace token create NAME --scope read makes one.")
        self.headers = ((b"www-authenticate", CHALLENGE),)
        self._is_browser = is_browser

    @property
    def answer(self) -> Answer:
        return login_page(self.status, "", self.headers) if self._is_browser else super().answer


class ScopeMissing(Forbidden):
    """A token that may not do this."""

    def __init__(self, scope: Scope, holder: "Holder") -> None:
        has = ", ".join(sorted(holder.scopes))
        super().__init__(
            f"This needs the scope {scope}, and the token {holder.name!r} has {has}. Ask with another token."
        )
        self.headers = ((b"www-authenticate", CHALLENGE + f', error="insufficient_scope", scope="{scope}"'.encode()),)


class Holder(NamedTuple):
    """Who is let in: the name of the token, what it may do, and how often it may still."""

    name: str
    scopes: frozenset[Scope]
    bucket: Bucket


BOTTOMLESS = Bucket(1e18, 0.0)
ANYBODY = Holder("anybody", frozenset({Scope.OPEN}), BOTTOMLESS)


class Guard:
    """Lets in who may ask; follows the file of tokens, so that one that is revoked is soon worth nothing."""

    def __init__(self, place: GuardPlace, access: Access) -> None:
        self._state, self._access = place.state, access
        self._sites = Sites(place.host, access.names)
        self._passes = Passes.of(place.state)
        self._sessions = Sessions(place.state, self._passes)
        self._own = Holder(OWN, frozenset({Scope.READ}), BOTTOMLESS)
        self._cookie = f"headrace_{place.port}"
        self._holders: dict[bytes, Holder] = {}
        self._remembered: dict[bytes, Holder] = {}
        self._strangers = Buckets(STRANGERS_A_SECOND)
        self._is_closed = place.is_reachable or access.is_behind_proxy
        self._seen = self._stamp()
        self._take(read_tokens(place.state))

    @property
    def is_behind_proxy(self) -> bool:
        return self._access.is_behind_proxy

    def require(self, request: Head, scope: Scope) -> None:
        """Refuse a request that may not be answered."""
        found = _found(request.headers)
        if b"origin" in found or FETCH_SITE in found or found.get(b"host") not in self._sites.known:
            self._require_site(request, scope, found)
        if not self._is_closed:
            return
        holder = self._remembered.get(found.get(b"authorization", b""))
        if holder is None or scope not in holder.scopes:
            holder = self._require_holder(request, scope, found)
        if not holder.bucket.take(request.came.at):
            raise TooOften(self._access.rate, "let the server be started with a higher --rate")

    def allows(self, request: Head, scope: Scope) -> bool:
        """Whether a request may be answered; asking this counts for nothing."""
        found = _found(request.headers)
        try:
            self._require_site(request, scope, found)
            if self._is_closed and scope is not Scope.OPEN:
                self._require_scope(request, scope, found)
        except Refused:
            return False
        return True

    def session(self, token: str) -> Header | None:
        """A cookie for whoever has a token."""
        digest = digest_of(token.strip().encode())
        if digest not in self._holders:
            return None
        return self._kept(self._sessions.begun(digest), SESSION_SECONDS)

    def session_of(self, request: Head) -> Session | None:
        """The session of a browser that asks."""
        return self._sessions.known(_cookie(_found(request.headers).get(b"cookie", b""), self._cookie))

    def end_session(self, request: Head) -> Header:
        """End the session of a browser that asks, if it has one; gives what makes it forget its cookie."""
        session = self.session_of(request)
        if session is not None:
            self._sessions.end(session)
        return self._kept("", 0)

    def _kept(self, value: str, seconds: int) -> Header:
        secure = "; Secure" if self._access.is_secret else ""
        kept = f"{self._cookie}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", kept.encode()

    async def follow(self) -> None:
        """Follow the file of tokens, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Take the tokens anew if their file has changed; a file that cannot be trusted lets nobody in."""
        try:
            self._sessions.look()
        except (HeadraceError, OSError) as problem:
            LOGGER.error("which sessions have ended is not known: %s", problem)
        seen = self._stamp()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._take(read_tokens(self._state))
        except (HeadraceError, OSError) as problem:
            LOGGER.error("nobody is let in by a token: %s", problem)
            self._is_closed, self._holders, self._remembered = True, {}, {}

    def _stamp(self) -> tuple[int, ...] | None:
        """What changes whenever the file of tokens does; nothing where there is none, empty where it cannot be seen."""
        try:
            found = tokens_file(self._state).stat()
        except FileNotFoundError:
            return None
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def _take(self, tokens: Iterable[Token]) -> None:
        """Once there was a file of tokens, this process asks for one until it ends."""
        now, before = time.perf_counter(), self._holders
        self._is_closed, self._remembered = self._is_closed or self._seen is not None, {}
        self._holders = {
            one.digest: Holder(
                one.name,
                reach_of(one.scopes),
                before[one.digest].bucket if one.digest in before else Bucket(self._access.rate, now),
            )
            for one in tokens
        }

    def _require_site(self, request: Head, scope: Scope, found: dict[bytes, bytes]) -> None:
        host, origin = found.get(b"host"), found.get(b"origin")
        if host is not None:  # a browser always says it
            self._sites.require_name(host)
        is_public = scope is Scope.OPEN and request.method in SAFE_METHODS
        if is_public:
            return
        if origin is not None:
            self._sites.require_page(origin, host)
        if found.get(FETCH_SITE) not in OWN_FETCHES and not self._may_cross(request, found):
            raise OtherSite(
                "A page of another site may not ask this server. Ask from a page of its own, or without one."
            )

    def _may_cross(self, request: Head, found: dict[bytes, bytes]) -> bool:
        """Whether a page of another site may ask all the same: one that was named may, any may lead to ours."""
        is_link = request.method in SAFE_METHODS and found.get(FETCH_MODE) == b"navigate"
        return is_link or self._sites.is_given(found.get(b"origin", b""))

    def _require_holder(self, request: Head, scope: Scope, found: dict[bytes, bytes]) -> Holder:
        """Who asks; whoever is not known may be anybody, and asks as often as anybody may."""
        if scope is Scope.OPEN:
            self._require_patience(request, found)
            return ANYBODY
        try:
            return self._require_scope(request, scope, found)
        except Unauthorized:
            self._require_patience(request, found)
            raise

    def _require_scope(self, request: Head, scope: Scope, found: dict[bytes, bytes]) -> Holder:
        is_browser = request.method in SAFE_METHODS and b"text/html" in found.get(b"accept", b"")
        shown, session = found.get(b"authorization"), _cookie(found.get(b"cookie", b""), self._cookie)
        if shown is None and not session:
            raise NoToken("This server wants a token.", is_browser)
        holder = self._by_session(session, request, found) if shown is None else self._by_bearer(shown)
        if holder is None:
            raise NoToken("This token is not known here, or is over.", is_browser)
        if scope not in holder.scopes:
            raise ScopeMissing(scope, holder)
        return holder

    def _by_bearer(self, shown: bytes) -> Holder | None:
        if shown[: len(BEARER)].lower() != BEARER:
            return None
        token = shown[len(BEARER) :].strip()
        # Looked up by its hash: how long that takes tells nothing of any token. One that was found needs none again.
        holder = self._holders.get(digest_of(token))
        if holder is None:
            return self._by_pass(token)
        if len(self._remembered) < MOST_REMEMBERED:
            self._remembered[shown] = holder
        return holder

    def _by_pass(self, token: bytes) -> Holder | None:
        bearer = self._passes.bearer(Purpose.OWN, token.decode("latin-1"), time.time())
        return self._own if bearer == OWN else None

    def _by_session(self, session: str, request: Head, found: dict[bytes, bytes]) -> Holder | None:
        """A browser sends its cookie with whatever a page makes it send: what changes things must be from our page."""
        if request.method not in SAFE_METHODS and b"origin" not in found:
            raise OtherSite(
                "A session is good for a page of this server alone, which says its Origin. Ask with a token."
            )
        known = self._sessions.known(session)
        return None if known is None else self._holders.get(known.digest)

    def _require_patience(self, request: Head, found: dict[bytes, bytes]) -> None:
        """Of who is not known so many may ask, by their address; a proxy tells it last."""
        told = found.get(b"x-forwarded-for", b"") if self._access.is_behind_proxy else b""
        address = told.rpartition(b",")[2].strip()[:LONGEST_ADDRESS].decode("latin-1") or request.address
        if not self._strangers.take(neighbourhood(address), request.came.at):
            raise TooOften(STRANGERS_A_SECOND, "with a token")


def while_allowed(flow: Flow, allows: Callable[[], bool]) -> Flow:
    """What flows, until whoever listens may no more."""

    def joined(tell: Tell) -> None:
        flow(lambda piece: tell(piece if allows() else None))

    return joined


def _found(headers: Iterable[Header]) -> dict[bytes, bytes]:
    found = {}
    for name, value in headers:
        if len(name) in WANTED:
            found[name.lower()] = value
    return found


def _cookie(sent: bytes, name: str) -> str:
    """The value of a cookie, or nothing; whatever else a browser keeps for this host is passed over."""
    pairs = (pair.strip().partition("=") for pair in sent.decode("latin-1").split(";"))
    return next((value for known, _, value in pairs if known == name), "")
