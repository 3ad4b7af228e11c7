"""Browser sessions: a token is entered once, a session has its token's scope, and a logout ends it on all workers."""

import json
import re
import socket
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from headrace.embedded_servers.ports import HOST
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.auth import request_guard as guards
from headrace.server.auth import sessions
from headrace.server.auth.api_tokens import revoke_token
from headrace.server.auth.scopes import Scope
from headrace.server.auth.sessions import MAX_ENDED_SESSIONS, SESSION_SECONDS, BrowserSession, EndedSessions
from tests.browser import Browser
from tests.server.prediction_app import VIEWS, event, fraud, predicting
from tests.server.secured_server import PORT, Guarded, guard_of, guarded, tokens_of
from tests.server.server_thread import app_of_views, serving
from tests.waiting import SOCKET_S, wait_until


def test_a_browser_that_looks_is_shown_where_to_enter_a_token(server: Guarded) -> None:
    said = server.ask("GET", "/", headers={"Accept": "text/html,*/*"})
    assert (said.status, said.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b'action="/login"' in said.body
    assert "form-action 'self'" in said.headers["content-security-policy"]
    assert server.ask("GET", "/").json["error"].startswith("This server wants a token.")


def test_a_session_is_a_cookie_that_no_script_reads_and_no_other_site_sends(server: Guarded) -> None:
    said = server.ask("POST", "/login", f"token={server.tokens[Scope.READ]}")
    cookie = said.headers["set-cookie"]
    kept, *how = cookie.split("; ")
    assert re.fullmatch(rf"headrace_{PORT}=[0-9a-f]{{64}}-[0-9a-f]{{16}}\.\d+\.[0-9a-f]{{64}}", kept)
    assert how == ["Path=/", f"Max-Age={SESSION_SECONDS}", "HttpOnly", "SameSite=Strict"]
    assert server.tokens[Scope.READ] not in cookie
    for body in ("", "token=", "token=hr_wrong", "token=" + quote(server.tokens[Scope.READ][:-1]), b"\xff" * 9000):
        refused = server.ask("POST", "/login", body)
        assert (refused.status, "set-cookie" in refused.headers) == (401, False)


def test_a_session_reads_as_its_token_does_until_that_is_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "POLL_SECONDS", 0.05)
    with guarded(tmp_path) as server:
        cookie = {"Cookie": f"theme=dark; odd; {server.login()}; x=y"}
        for path in ("/", "/metrics", "/history", "/dashboard/app.json"):
            assert server.ask("GET", path, headers=cookie).status == 200
        assert server.ask("GET", "/v2/models/fraud", headers=cookie).status == 403
        revoke_token(tmp_path / "state", "read")
        wait_until(lambda: server.ask("GET", "/", headers=cookie).status == 401, 5, "the session to end")


def test_a_session_ends_after_its_time(server: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSION_SECONDS", 0)
    assert server.ask("GET", "/metrics", headers={"Cookie": server.login()}).status == 401


def test_workers_know_the_sessions_of_each_other(tmp_path: Path) -> None:
    with guarded(tmp_path) as one:
        other = guard_of(tmp_path / "state")
        with predicting(fraud(tmp_path), guard=other) as ask:
            assert ask("GET", "/metrics", headers={"Cookie": one.login()}).status == 200


def test_a_session_that_is_ended_is_over_on_the_server_and_no_other_is(tmp_path: Path) -> None:
    with guarded(tmp_path) as server:
        mine, other = ({"Cookie": server.login()} for _ in range(2))
        assert server.ask("GET", "/session", headers=mine).json == {"session": True}
        said = server.ask("POST", "/logout", {}, mine)
        assert (said.status, said.json) == (200, {"session": False})
        assert f"headrace_{PORT}=; Path=/; Max-Age=0; HttpOnly" in said.headers["set-cookie"]
        assert [server.ask("GET", "/metrics", headers=one).status for one in (mine, other)] == [401, 200]
        assert server.ask("GET", "/session", headers=mine).json == {"session": False}
        assert server(Scope.READ, "GET", "/metrics").status == 200  # the token itself is as good as before
        assert server.ask("POST", "/logout", {}, mine).status == 200  # again, or without one: it is over anyway
        assert server.ask("POST", "/logout", {}).status == 200
        assert server.ask("POST", "/logout", {}, other | {"Origin": "http://evil.example"}).status == 403
        assert server.ask("GET", "/metrics", headers=other).status == 200


def test_who_listens_is_let_go_of_when_the_session_ends(tmp_path: Path) -> None:
    with guarded(tmp_path) as server:
        cookie = server.login()
        with socket.create_connection((HOST, server.ask.port), timeout=SOCKET_S) as listener:
            listener.sendall(f"GET /live HTTP/1.1\r\ncookie: {cookie}\r\n\r\n".encode())
            assert listener.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            server.ask("POST", "/logout", {}, {"Cookie": cookie})
            began = time.monotonic()
            while listener.recv(1 << 16):
                assert time.monotonic() - began < SOCKET_S


def test_a_session_that_ended_is_over_for_other_workers_and_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "POLL_SECONDS", 0.05)
    with guarded(tmp_path) as one, predicting(fraud(tmp_path), guard=guard_of(tmp_path / "state")) as ask:
        cookie = {"Cookie": one.login()}
        assert ask("GET", "/metrics", headers=cookie).status == 200
        one.ask("POST", "/logout", {}, cookie)
        wait_until(lambda: ask("GET", "/metrics", headers=cookie).status == 401, 5, "the other worker to know")
    with predicting(fraud(tmp_path), guard=guard_of(tmp_path / "state")) as ask:
        assert ask("GET", "/metrics", headers=cookie).status == 401
    assert (tmp_path / "state" / "ended.json").stat().st_mode & 0o077 == 0


def test_what_ended_is_forgotten_when_its_time_has_come_and_too_many_end_all() -> None:
    began = [BrowserSession(b"", str(number), SESSION_SECONDS + number) for number in range(MAX_ENDED_SESSIONS + 1)]
    ended = EndedSessions(0, {"old": 5}).with_session(began[0], now=10)
    assert ended.ended == {"0": SESSION_SECONDS}
    full = EndedSessions(0, {one.session_id: one.expires_at for one in began[1:]})
    after = full.with_session(began[0], now=2 * MAX_ENDED_SESSIONS)
    assert all(after.contains(one) for one in began), "none is good again because there are too many"
    assert not after.contains(BrowserSession(b"", "new", 2 * MAX_ENDED_SESSIONS + 1 + SESSION_SECONDS))
    assert after.ended == {}


def test_a_form_of_another_site_cannot_use_a_session(server: Guarded) -> None:
    host = f"{HOST}:{server.ask.port}"
    cookie, body = {"Cookie": server.login(), "Host": host}, {"keys": ["c1"]}
    for origin in (
        "http://evil.example",
        "null",
        f"http://{HOST}:1",
        "http://localhost",
        f"http://{host}.evil.example",
    ):
        said = server.ask("POST", "/features/CardSpend", body, cookie | {"Origin": origin})
        assert (said.status, "may not ask this server" in said.error) == (403, True)
        login = server.ask("POST", "/login", f"token={server.tokens[Scope.READ]}", {"Origin": origin})
        assert (login.status, "set-cookie" in login.headers) == (403, False)
    said = server.ask("POST", "/features/CardSpend", body, cookie)  # an old browser's form sends no Origin
    assert (said.status, "send an Origin" in said.error) == (403, True)
    own = cookie | {"Origin": f"http://{host}"}
    assert server.ask("POST", "/features/CardSpend", body, own).status == 200


HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=2</script>\'"&{{7*7}}'


def test_what_is_said_back_is_never_a_page(server: Guarded) -> None:
    """A client's paths, keys and values in a response that a browser was made to open."""
    for said in (
        server(Scope.READ, "GET", f"/{quote(HOSTILE)}", Accept="text/html"),
        server(Scope.READ, "POST", "/features/CardSpend", {"keys": [HOSTILE]}),
        server(Scope.READ, "POST", "/features/CardSpend", {HOSTILE: 1}),
        server(Scope.PREDICT, "POST", "/predict/fraud", event(1, card=HOSTILE, amount=HOSTILE)),
        server(Scope.READ, "GET", f"/history?minutes={quote(HOSTILE)}"),
        server.ask("GET", "/", headers={"Host": HOSTILE}),
    ):
        assert "window.hit" in said.body.decode()
        assert said.headers["content-type"] == "application/json"


def test_a_browser_enters_a_token_once_and_shows_hostile_names_as_text(tmp_path: Path) -> None:
    from headrace.kafka.status.reports.queries import QueryProgress

    app, state, board = replace(app_of_views(*VIEWS), name=HOSTILE), tmp_path / "state", ProgressTable()
    now_us = time.time_ns() // 1000 + 10**12
    board.put(QueryProgress(HOSTILE, "payments", (), "real-time", True, now_us))
    token = tokens_of(state)[Scope.READ]
    with (
        serving(app, MemoryStoreReader(MemoryStore(VIEWS), None), board, guard=guard_of(state)) as ask,
        Browser(tmp_path / "profile") as browser,
    ):
        browser.open(f"http://{HOST}:{ask.port}/")
        wait_until(lambda: browser.value("!!document.querySelector('#token')"), 20, "the form")
        browser.console.clear()  # 401 is an error to a browser
        browser.value(f"document.querySelector('#token').value = {json.dumps(token)}; document.forms[0].submit()")
        wait_until(lambda: browser.value("document.body?.dataset.state") == "live", 20, "the page to be live")
        row = "document.querySelector('#queries tbody th')"
        wait_until(lambda: browser.value(f"{row}?.textContent") == HOSTILE, 10, "the hostile name as text")
        assert browser.value("document.querySelector('h1').textContent") == HOSTILE
        assert browser.value("document.title") == f"{HOSTILE} · Headrace"
        assert browser.value("window.hit") is None
        assert browser.value("document.querySelectorAll('img, main script').length") == 0
        assert browser.value("document.cookie") == ""
        assert browser.value("fetch('/metrics').then(answer => answer.status)") == 200
        assert browser.console == []


def test_a_browser_logs_out_by_the_keyboard_and_is_asked_for_a_token_again(tmp_path: Path) -> None:
    state = tmp_path / "state"
    token = tokens_of(state)[Scope.READ]
    with (
        serving(
            app_of_views(*VIEWS), MemoryStoreReader(MemoryStore(VIEWS), None), ProgressTable(), guard=guard_of(state)
        ) as ask,
        Browser(tmp_path / "profile") as browser,
    ):
        browser.open(f"http://{HOST}:{ask.port}/")
        wait_until(lambda: browser.value("!!document.querySelector('#token')"), 20, "the form")
        browser.value(f"document.querySelector('#token').value = {json.dumps(token)}; document.forms[0].submit()")
        wait_until(lambda: browser.value("document.getElementById('logout')?.hidden === false"), 20, "the button")
        (cookie,) = browser.do("Network.getCookies")["cookies"]
        shown = {"Cookie": f"{cookie['name']}={cookie['value']}"}
        assert ask("GET", "/metrics", headers=shown).status == 200
        browser.value("document.getElementById('theme').focus()")
        press(browser, "Tab")
        assert browser.value("document.activeElement.id") == "logout"
        press(browser, "Enter")
        wait_until(lambda: browser.value("!!document.querySelector('#token')"), 20, "the form again")
        assert browser.do("Network.getCookies")["cookies"] == []
        assert ask("GET", "/metrics", headers=shown).status == 401


def press(browser: Browser, key: str) -> None:
    """Press and release a key."""
    code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
    for kind in ("keyDown", "keyUp"):
        browser.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)
