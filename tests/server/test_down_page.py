"""Every page shows what is down, as text, and hides the notice once all runs."""

from dataclasses import replace
from pathlib import Path

from headrace.embedded_servers.ports import HOST
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from tests.browser import Browser
from tests.server.auth.test_readiness import APP, VIEW, lake_down
from tests.server.server_thread import board_of, serving
from tests.waiting import wait_until

HOSTILE = "<img src=x onerror=window.hit=1>"
ROWS = (
    "[...document.querySelectorAll('#down tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
)


def test_what_is_down_is_shown_with_why_and_what_is_affected_until_it_runs_again(tmp_path: Path) -> None:
    board = board_of(APP)
    board.put(replace(lake_down(), error=HOSTILE))
    with serving(APP, MemoryStoreReader(MemoryStore([VIEW]), None), board) as ask, Browser(tmp_path) as browser:
        browser.open(f"http://{HOST}:{ask.port}/?page=features")
        wait_until(lambda: browser.value(f"{ROWS}.length") == 1, 30, "the row")
        ((what, since, why, affects),) = browser.value(ROWS)
        assert (what, why, affects) == ("part lake", HOSTILE, "No rows.")
        assert since.endswith("Z")
        assert browser.value("document.getElementById('down').hidden") is False
        board.put(replace(lake_down(), state="running", down_since_us=None))
        wait_until(lambda: browser.value("document.getElementById('down').hidden"), 30, "the end of it")
        assert browser.value("window.hit") is None
        assert browser.console == []
