"""A page gets a day's updates within minutes, and its memory does not grow."""

import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import orjson
import pytest

from headrace.embedded_servers.ports import HOST
from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server import server
from headrace.server.metrics import live_metrics
from tests.browser import Browser
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import app_of_views, serving
from tests.waiting import wait_until

UPDATES, DAY_MS = 20_000, 86_400_000
EARLY = UPDATES // 4
TOLD = "window.told ?? 0"
COUNT = """
window.told = 0;
const source = new EventSource('/live');
source.onmessage = () => { window.told += 1; };
"""
FATES = ("in", "clean", "late", "dead", "dropped")
GROWTH = 1.15


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_day_of_news_does_not_make_the_page_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_metrics, "UPDATE_SECONDS", 0.0)
    view = new_view(new_stream())
    app, look = app_of_views(view), quick_news(view.streams[0].name)
    monkeypatch.setattr(server, "snapshot", lambda *_: look())
    online = MemoryStoreReader(MemoryStore([view]), None)
    with serving(app, online, ProgressTable()) as ask, Browser(tmp_path) as browser:
        browser.open(f"http://{HOST}:{ask.port}/?minutes=1440")
        wait_until(lambda: browser.value("document.body?.dataset.state") in {"live", "stale"}, 20, "the page")
        browser.value(COUNT)
        wait_until(lambda: browser.value(TOLD) >= EARLY, 300, "a quarter of a day")
        early = heap_bytes(browser)
        wait_until(lambda: browser.value(TOLD) >= UPDATES, 600, "a day")
        late = heap_bytes(browser)
        assert browser.console == []
    sys.stdout.write(f"\n{EARLY:,} updates: {early:,} bytes, {UPDATES:,} updates: {late:,} bytes\n")
    assert late <= GROWTH * early


def quick_news(stream: str) -> Callable[[], bytes]:
    """Metrics as the server sends them, with a time that advances faster than the clock."""
    began_ms, numbers = time.time_ns() // 1_000_000 - DAY_MS, count(1)

    def look() -> bytes:
        number = next(numbers)
        at_ms = began_ms + number * DAY_MS // UPDATES
        samples = [["headrace_events_total", {"stream": stream, "fate": fate}, number] for fate in FATES]
        samples += [["headrace_apply_seconds_bucket", {"view": "v", "le": str(n / 100)}, number] for n in range(40)]
        samples += [["headrace_state_bytes", {"query": f"q{n}"}, number % (97 + n)] for n in range(40)]
        samples += [["headrace_lag", {"stream": stream}, number % 89], ["headrace_alerts_firing", {}, number % 3]]
        return orjson.dumps({"at": at_ms, "samples": samples})

    return look


def heap_bytes(browser: Browser) -> int:
    """The memory of the page's scripts after a garbage collection."""
    browser.do("HeapProfiler.collectGarbage")
    return int(browser.do("Runtime.getHeapUsage")["usedSize"])
