"""Pages that run commands, with results from the test: all output is escaped, and every command is requested."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.embedded_servers.ports import HOST
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.auth.scopes import Scope
from headrace.server.http.responses import Response
from headrace.server.http.routing import Request, Route, post_route
from tests.browser import Browser
from tests.server.prediction_app import fraud
from tests.server.server_thread import app_of_views, serving
from tests.waiting import wait_until

HOSTILE = "<img src=x onerror=window.hit=1>"
LETTER = {
    "place": "payments-0@1",
    "state": "open",
    "reason": "not-json: …",
    "arrived": "2026",
    "key": None,
    "value": "{",
}
GIVEN = [["app", "till"], [HOSTILE, HOSTILE], ["bytes", {"base64": "/w=="}]]
OPEN = [LETTER | {"headers": GIVEN}, LETTER | {"place": "payments-0@2", "headers": None}]
DONE = LETTER | {"place": "payments-0@3", "state": "replayed", "headers": []}
DRIFTED = {
    "column": HOSTILE,
    "segment": {"country": "FR"},
    "tests": ["ks", "unseen"],
    "multiple": 2.5,
    "effect": 0.1,
    "importance": None,
    "new": {HOSTILE: 3},
}
ANSWERS: dict[str, Any] = {
    "/ask/dead": [
        {"stream": "payments", "reason": "not-json", "open": 2, "replayed": 1, "discarded": 0, "last": "", "said": ""}
    ],
    "/ask/drift": {"version": "3", "window": "1h", "rows": 700, "ranked": [DRIFTED]},
    "/ask/models": [],
    "/ask/quality": {},
}


class Commands:
    """Responds as commands would, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def routes(self) -> list[Route]:
        fixed = [post_route(path, self._fixed(said), scope=Scope.READ) for path, said in ANSWERS.items()]
        return [*fixed, post_route("/ask/letters", self._letters, scope=Scope.READ)]

    def _fixed(self, said: Any) -> Any:
        async def answer(request: Request) -> Response:
            self.asked.append(json.loads(request.body))
            return Response(200, json.dumps(said).encode())

        return answer

    async def _letters(self, request: Request) -> Response:
        asked = json.loads(request.body)
        return Response(200, json.dumps([*OPEN, DONE] if "every" in asked else OPEN).encode())


def letters(browser: Browser) -> list[str]:
    found: list[str] = browser.value("[...document.querySelectorAll('[data-letter]')].map((one) => one.dataset.letter)")
    return found


def buttons(browser: Browser, place: str) -> int:
    return int(browser.value(f"document.querySelectorAll('[data-letter=\"{place}\"] button').length"))


@pytest.fixture
def page(tmp_path: Path) -> Any:
    commands, model = Commands(), fraud(tmp_path)
    app = replace(app_of_views(*model.views), models=(model,))
    online = MemoryStoreReader(MemoryStore(model.views), None)
    with (
        serving(app, online, ProgressTable(), more=commands.routes()) as ask,
        Browser(tmp_path / "profile") as browser,
    ):
        yield ask, browser, commands


def test_letters_are_shown_with_headers_as_text_and_those_dealt_with_when_asked_for(page: Any) -> None:
    ask, browser, _ = page
    browser.open(f"http://{HOST}:{ask.port}/?page=streams")
    wait_until(lambda: browser.value("document.querySelector('#dead button') !== null"), 20, "dead letters")
    browser.value("document.querySelector('#dead button').click()")
    wait_until(lambda: letters(browser) == ["payments-0@1", "payments-0@2"], 10, "the letters that are open")
    headers = "[...document.querySelectorAll('[data-headers=\"payments-0@1\"] tbody tr')]"
    cells = browser.value(f"{headers}.map((row) => [...row.children].map((cell) => cell.textContent))")
    assert cells == [["app", "till"], [HOSTILE, HOSTILE], ["bytes", "base64 /w=="]]
    assert "its headers are gone" in browser.value(
        "document.querySelector('[data-letter=\"payments-0@2\"]').textContent"
    )
    browser.value(
        "[...document.querySelectorAll('#letters button')].find((one) => one.textContent.startsWith('also')).click()"
    )
    wait_until(lambda: "payments-0@3" in letters(browser), 10, "those dealt with")
    assert browser.value("document.querySelector('#letters p').textContent").startswith(
        "2 of payments, not-json, are open"
    )
    assert buttons(browser, "payments-0@1") > buttons(browser, "payments-0@3") == 1, "what is done is not done again"
    assert browser.value("window.hit") is None
    assert browser.console == []


def test_what_drifted_is_ranked_on_the_page_of_models(page: Any) -> None:
    ask, browser, commands = page
    browser.open(f"http://{HOST}:{ask.port}/?page=models")
    wait_until(lambda: browser.value("document.querySelector('#drifting button') !== null"), 20, "the page")
    assert {"model": "fraud"} not in commands.asked, "nobody asks before somebody wants to know"
    browser.value("document.querySelector('#drifting button').click()")
    wait_until(lambda: browser.value("document.getElementById('drifted').dataset.panel") == "there", 10, "the answer")
    cells = browser.value("[...document.querySelectorAll('#drifted tbody tr > *')].map((cell) => cell.textContent)")
    assert cells == [HOSTILE, "country=FR", "ks, unseen", "2.50 × critical", "0.10", "exact", f"{HOSTILE}=3"]
    assert {"model": "fraud"} in commands.asked
    assert browser.value("window.hit") is None
    assert browser.console == []
