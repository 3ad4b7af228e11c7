"""Authorization: every route is requested with every scope, and answers only authorized requests."""

import re
import socket
import time
from pathlib import Path

import pytest

from headrace.declare.app import App
from headrace.embedded_servers.ports import HOST
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.runtime.admin_routes import admin_routes
from headrace.runtime.settings import Settings
from headrace.server.auth import request_guard as guards
from headrace.server.auth.access_config import AccessConfig
from headrace.server.auth.api_tokens import create_token, revoke_token, tokens_file
from headrace.server.auth.internal_client import InternalClient
from headrace.server.auth.scopes import GRANTABLE_SCOPES, Scope
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, Route, get_route, post_route
from headrace.server.server import create_router
from headrace.storage.private_files import FileNotPrivateError
from headrace.telemetry.values.metrics_scraper import scrape_metrics
from tests.server.prediction_app import VIEWS, event, fraud, payments, predicting
from tests.server.secured_server import Guarded, bearer, guard_of
from tests.server.server_thread import Asking, answering, app_of_views, serving
from tests.waiting import SOCKET_S, wait_until

NOT_ALLOWED = {401, 403}
# Open routes: load balancers and process managers have no token.
OPEN = {"/v2/health/live", "/v2/health/ready", "/ping", "/login", "/logout", "/session"}
PAGE = Path(__file__).parents[3] / "docs" / "security.md"
ASKED = Settings("127.0.0.1:0", None, 9092, "memory", None, Path(), None, frozenset(), "real-time", 60)


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Route, ...]:
    """Every route of the server, as the server itself lists them."""
    found: list[Route] = []
    folder = tmp_path_factory.mktemp("routes")

    def remember(*parts: object) -> object:
        http = create_router(*parts)  # type: ignore[arg-type]
        found.extend(http._routes.values())
        return http

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.server.server.create_router", remember)
        with predicting(fraud(folder), guard=guard_of(folder)):
            return tuple(found)


def asked(route: Route) -> list[tuple[str, str, object]]:
    """Every kind of request to a route; of an event stream only the head."""
    body = event(1) if "predict" in route.path else {"keys": ["c1"]}
    ways = [method for method in route.methods if method != "GET" or route.path != "/live"]
    return [(method, route.path, body if method == "POST" else None) for method in ways]


def test_every_route_is_closed_without_a_token_and_to_every_token_of_another_scope(
    server: Guarded, routes: tuple[Route, ...]
) -> None:
    assert len(routes) > 20
    assert {route.path for route in routes if route.scope is Scope.OPEN} == OPEN
    for route in routes:
        for method, path, body in asked(route):
            if route.scope is Scope.OPEN:
                assert path == "/login" or server.ask(method, path, body).status in {200, 503}
                continue
            for headers in ({}, bearer("hr_" + "A" * 43), bearer(""), {"Authorization": "Basic aHI6aHI="}):
                said = server.ask(method, path, body, headers)
                assert (said.status, path) == (401, path)
                assert said.headers["www-authenticate"].startswith('Bearer realm="headrace"')
            for scope in GRANTABLE_SCOPES:
                said = server(scope, method, path, body)
                if scope in {route.scope, Scope.ADMIN}:
                    assert said.status not in NOT_ALLOWED, (path, scope)
                else:
                    assert (said.status, path, scope) == (403, path, scope)
                    assert f'scope="{route.scope}"' in said.headers["www-authenticate"]
                    if method != "HEAD":
                        assert f"needs the scope {route.scope}" in said.error


def documented_scopes() -> dict[Scope, set[str]]:
    """The table of docs/security.md: what each scope may ask."""
    rows = re.findall(r"^\| (`read`|`predict`|`write`|`admin`|none) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    named = {"none": Scope.OPEN} | {f"`{scope}`": scope for scope in GRANTABLE_SCOPES}
    return {named[scope]: set(re.findall(r"`((?:GET|POST) /[^`]*)`", told)) for scope, told in rows}


def as_documented(route: Route) -> str:
    path = re.sub(r"^/dashboard/.*", "/dashboard/FILE", route.path)
    path = re.sub(r"^/features/.*", "/features/VIEW", path)
    return f"{route.methods[0]} {path.replace('fraud', 'MODEL')}"


def test_the_page_of_scopes_is_what_the_routes_ask_for(routes: tuple[Route, ...]) -> None:
    asked = admin_routes("app.py", App("shop", (payments,), VIEWS), ASKED)
    scopes: dict[Scope, set[str]] = {scope: set() for scope in Scope}
    for route in (*routes, *asked):
        scopes[route.scope].add(as_documented(route))
    assert documented_scopes() == scopes


def test_a_route_that_says_nothing_is_for_an_admin_alone(server: Guarded) -> None:
    async def nothing(_request: Request) -> Response:
        return Response(200, b"{}")

    with answering([get_route("/get", nothing), post_route("/post", nothing)], server.guard) as port:
        for method, path in (("GET", "/get"), ("POST", "/post")):
            said = {
                scope: Asking(port)(method, path, headers=bearer(server.tokens[scope])).status
                for scope in GRANTABLE_SCOPES
            }
            assert said == {Scope.READ: 403, Scope.PREDICT: 403, Scope.WRITE: 403, Scope.ADMIN: 200}


def test_who_may_not_read_is_not_told_which_paths_there_are(server: Guarded) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        for path in ("/nowhere", "/features/", "/predict/x"):
            said = server.ask(method, path)
            assert said.status == 401
            assert "CardSpend" not in said.error
    assert "/features/CardSpend" in server(Scope.READ, "GET", "/features/x").error
    assert server.ask("DELETE", "/metrics").status == 401
    assert server(Scope.READ, "DELETE", "/metrics").status == 405


TRAVERSALS = [
    "../tokens.json", "..%2ftokens.json", "%2e%2e/%2e%2e/etc/passwd", "..%5c..%5cetc%5cpasswd", "....//....//etc",
    "..;/server.py", "%252e%252e%252fserver.py", "..%c0%af..%c0%afetc/passwd", "%00/app.js", "app.js%00.css", "/etc",
    "..%u2216..%u2216etc", ".%2e/page.py", "index.html", "app.js/", "app.js/..", "./app.js", "%2fapp.js", "APP.JS", "",
]  # fmt: skip


@pytest.mark.parametrize("way", TRAVERSALS)
def test_no_path_leads_out_of_what_is_served(server: Guarded, way: str) -> None:
    for beginning in ("/dashboard/", "/", "/features/", "/v2/models/", "/dashboard/../"):
        if way or beginning != "/":
            said = server(Scope.ADMIN, "GET", beginning + way)
            assert (said.status, beginning + way) == (404, beginning + way)
            assert b"root:" not in said.body
            assert b"sha256" not in said.body


def test_who_is_not_ready_says_why_only_to_who_may_read(tmp_path: Path) -> None:
    token = create_token(tmp_path, "reader", frozenset({Scope.READ}))
    app = app_of_views(VIEWS[0])
    with serving(app, MemoryStoreReader(MemoryStore(VIEWS), None), ProgressTable(), guard=guard_of(tmp_path)) as ask:
        stranger, reader = ask("GET", "/v2/health/ready"), ask("GET", "/v2/health/ready", headers=bearer(token))
        assert (stranger.status, stranger.json) == (503, {"ready": False})
        assert (reader.status, bool(reader.json["missing"])) == (503, True)


# Tokens come and go.


def test_tokens_are_followed_without_a_restart(tmp_path: Path) -> None:
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path / "state")) as ask:
        assert ask("GET", "/metrics").status == 200
        token = create_token(tmp_path / "state", "late", frozenset({Scope.READ}))
        wait_until(lambda: ask("GET", "/metrics").status == 401, 5, "tokens to be asked for")
        assert ask("GET", "/metrics", headers=bearer(token)).status == 200
        with socket.create_connection((HOST, ask.port), timeout=SOCKET_S) as listener:
            listener.sendall(f"GET /live HTTP/1.1\r\nauthorization: Bearer {token}\r\n\r\n".encode())
            assert listener.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            revoke_token(tmp_path / "state", "late")
            began = time.monotonic()
            while listener.recv(1 << 16):  # listeners are disconnected too
                assert time.monotonic() - began < SOCKET_S
        assert ask("GET", "/metrics", headers=bearer(token)).status == 401


def test_a_server_without_its_tokens_stays_closed(tmp_path: Path) -> None:
    guard, seen = guard_of(tmp_path), []
    for change in (
        lambda: create_token(tmp_path, "a", frozenset({Scope.ADMIN})),
        lambda: revoke_token(tmp_path, "a"),
        lambda: tokens_file(tmp_path).unlink(),
    ):
        change()
        guard.reload_if_changed()
        seen.append(guard._requires_token)
    assert seen == [True, True, True]


def test_a_state_folder_that_cannot_be_seen_lets_nobody_in_until_it_can(tmp_path: Path) -> None:
    state, aside = tmp_path / "state", tmp_path / "aside"
    create_token(state, "a", frozenset({Scope.ADMIN}))
    guard, known = guard_of(state), []
    for change in (lambda: state.rename(aside), state.touch, state.unlink, lambda: aside.rename(state)):
        change()
        guard.reload_if_changed()
        known.append((len(guard._principals_by_digest), guard._requires_token))
    assert known == [(0, True), (0, True), (0, True), (1, True)]


def test_a_file_of_tokens_that_others_may_write_lets_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "POLL_SECONDS", 0.05)
    token = create_token(tmp_path / "state", "a", frozenset({Scope.READ}))
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path / "state")) as ask:
        assert ask("GET", "/metrics", headers=bearer(token)).status == 200
        tokens_file(tmp_path / "state").chmod(0o666)
        wait_until(lambda: ask("GET", "/metrics", headers=bearer(token)).status == 401, 5, "the file to be refused")
    with pytest.raises(FileNotPrivateError, match="chmod 600"):
        guard_of(tmp_path / "state")


def test_an_address_that_others_reach_is_closed_before_there_is_a_token(tmp_path: Path) -> None:
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path, is_reachable=True)) as ask:
        assert ask("GET", "/metrics").status == 401
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path, AccessConfig(is_behind_proxy=True))) as ask:
        assert ask("GET", "/metrics").status == 401


def test_parts_of_the_same_state_folder_are_let_in_to_read_and_no_others(
    server: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    url = f"http://{HOST}:{server.ask.port}"
    assert scrape_metrics(InternalClient(url, server.guard._state)) is not None
    assert scrape_metrics(InternalClient(url, tmp_path)) is None
    assert scrape_metrics(InternalClient(url)) is None
    own = InternalClient(url, server.guard._state)._headers()
    assert server.ask("POST", "/predict/fraud", event(1), own).status == 403
    monkeypatch.setenv("HEADRACE_TOKEN", server.tokens[Scope.READ])
    assert scrape_metrics(InternalClient(url)) is not None


# Names and pages.


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "a@localhost"]
)
def test_a_name_that_was_made_to_lead_here_is_refused_tokens_or_not(server: Guarded, tmp_path: Path, host: str) -> None:
    assert server.ask("GET", "/metrics", headers={"Host": host} | bearer(server.tokens[Scope.ADMIN])).status == 403
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path)) as ask:
        said = ask("GET", "/metrics", headers={"Host": host})
        assert (said.status, "--allow-host" in said.error) == (403, True)


def test_the_names_of_a_server_are_loopback_its_address_and_those_it_was_given(tmp_path: Path) -> None:
    access = AccessConfig(allowed_hosts=("shop.example", "Other.example:8443"))
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path, access)) as ask:
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9", "127.0.0.2", "[::1]:80", "Shop.example:443"):
            assert ask("GET", "/version", headers={"Host": host}).status == 200
        page = {"Host": "behind", "Origin": "https://shop.example"}
        assert ask("GET", "/version", headers=page).status == 403
        for host, origin, status in [
            ("localhost", "https://shop.example", 200),
            ("localhost", "https://other.example:8443", 200),
            ("localhost", "https://other.example", 403),
            ("localhost", "https://shop.example:8443", 403),
            ("localhost:80", "http://localhost:80", 200),
            ("localhost:80", "http://localhost:81", 403),
        ]:
            assert ask("GET", "/version", headers={"Host": host, "Origin": origin}).status == status


def test_a_page_of_another_site_may_ask_whether_the_server_lives_and_nothing_else(tmp_path: Path) -> None:
    origin = {"Origin": "http://evil.example"}
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path)) as ask:
        assert ask("GET", "/v2/health/live", headers=origin).status == 200
        for method, path in (("GET", "/metrics"), ("POST", "/predict/fraud"), ("GET", "/"), ("OPTIONS", "/metrics")):
            assert ask(method, path, event(1) if method == "POST" else None, origin).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "SAME-ORIGIN", "nonsense"])
def test_what_a_page_of_another_site_makes_a_browser_send_is_refused(
    server: Guarded, tmp_path: Path, site: str
) -> None:
    told = {"Sec-Fetch-Site": site}
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path)) as ask:
        for path in ("/predict/fraud", "/features/CardSpend", "/sql", "/logout", "/login"):
            assert ask("POST", path, event(1), told).status == 403
            assert ask("POST", path, event(1), told | {"Sec-Fetch-Mode": "navigate"}).status == 403
        for path in ("/metrics", "/live", "/panels", "/dashboard/app.json"):
            assert ask("GET", path, headers=told | {"Sec-Fetch-Mode": "no-cors"}).status == 403
        assert ask("GET", "/", headers=told | {"Sec-Fetch-Mode": "navigate"}).status == 200  # a link to the page
        assert ask("GET", "/ping", headers=told).status == 200
    assert server(Scope.ADMIN, "POST", "/predict/fraud", event(1), **told).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_our_own_page_and_whoever_is_no_browser_are_answered(tmp_path: Path, site: str | None) -> None:
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path)) as ask:
        told = {} if site is None else {"Sec-Fetch-Site": site}
        assert ask("POST", "/predict/fraud", event(1), told).status == 200
        assert ask("GET", "/metrics", headers=told).status == 200


def test_a_page_of_a_name_that_was_given_may_ask_from_its_own_site(tmp_path: Path) -> None:
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path, AccessConfig(allowed_hosts=("shop.example",)))) as ask:
        told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
        for origin, status in (("https://shop.example", 200), ("https://evil.example", 403)):
            assert ask("POST", "/predict/fraud", event(1), told | {"Origin": origin}).status == status


def test_a_request_that_changes_or_starts_something_is_a_post(routes: tuple[Route, ...]) -> None:
    safe = {route.path for route in routes if route.methods == ("GET", "HEAD")}
    looked = {"/", "/live", "/panels", "/history", "/metrics", "/hot", "/version", "/ping", "/session", "/openapi.json"}
    assert {path for path in safe if not path.startswith(("/v2", "/dashboard/"))} == looked
    assert {route.methods for route in routes if route.path not in safe} == {("POST",)}


def test_a_server_that_is_bound_everywhere_answers_to_addresses_and_not_to_names(tmp_path: Path) -> None:
    from headrace.server.auth.origin_check import OriginPolicy, OriginRefused

    sites = OriginPolicy("0.0.0.0")
    for host in (b"192.0.2.7:8080", b"[2001:db8::1]:8080", b"0.0.0.0:1", b"localhost"):
        sites.require_host(host)
    for host in (b"evil.example", b"192.0.2.7.evil.example", b"", b"0x7f.1", b"[evil]", b"\xff"):
        with pytest.raises(OriginRefused):
            sites.require_host(host)
