"""The history of the golden signals: a day, at a resolution that falls with age, unchanged by a restart."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.status.progress_table import ProgressTable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.metrics import metric_history as module
from headrace.server.metrics.metric_history import (
    DAY_MS,
    HOUR_MS,
    MAX_SNAPSHOTS,
    MINUTE_MS,
    RECORDED_FAMILIES,
    MetricHistory,
)
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import Asking, app_of_views, board_of, serving
from tests.waiting import wait_until

STEP_MS = 15_000
NOON_MS = 1_767_268_800_000


def test_an_hour_is_kept_closely_a_day_by_minutes_and_no_more(tmp_path: Path) -> None:
    history = MetricHistory(tmp_path / "history.db")
    for at_ms in range(NOON_MS - DAY_MS - HOUR_MS, NOON_MS + 1, 5 * STEP_MS):
        history.add(at_ms, b"%d" % at_ms)
    for at_ms in range(NOON_MS, NOON_MS + 2 * HOUR_MS, STEP_MS):
        history.add(at_ms, b"%d" % at_ms)
    last_ms = NOON_MS + 2 * HOUR_MS - STEP_MS
    found = [*map(int, every(tmp_path, 0))]
    assert found == sorted(found)
    assert found[0] >= last_ms - DAY_MS
    recent = [at_ms for at_ms in found if at_ms >= last_ms - HOUR_MS]
    assert recent == [*range(last_ms - HOUR_MS, last_ms + 1, STEP_MS)]
    older = [at_ms // MINUTE_MS for at_ms in found if at_ms < last_ms - HOUR_MS]
    assert len(set(older)) == len(older) > 60
    thinned = MetricHistory(tmp_path / "history.db").read_since(0)
    assert MAX_SNAPSHOTS / 2 < len(thinned) <= MAX_SNAPSHOTS


def every(folder: Path, since_ms: int) -> list[bytes]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MAX_SNAPSHOTS", 10**6)
        return MetricHistory(folder / "history.db").read_since(since_ms)


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert MetricHistory(tmp_path / "history.db").read_since(0) == []


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.1)
    app = app_of_views(view := new_view(new_stream()))
    with serving(
        app, MemoryStoreReader(MemoryStore([view]), None), board_of(app), history=MetricHistory(tmp_path / "h.db")
    ) as ask:
        yield ask


def test_a_server_keeps_what_the_page_draws(ask: Asking) -> None:
    wait_until(lambda: len(ask("GET", "/history?minutes=1").json) > 1, 10, "some history")
    told = ask("GET", "/history").json
    assert abs(told[-1]["at"] - time.time() * 1000) < 60_000
    names = {name for name, _, _ in told[-1]["samples"]}
    assert {name for name in names if not any(name.startswith(kept) for kept in RECORDED_FAMILIES)} == set()
    assert "headrace_state_bytes" in names


@pytest.mark.parametrize("minutes", ["0", "-1", "1441", "x", "9" * 5000, "%00"])
def test_what_is_no_number_of_minutes_is_refused(ask: Asking, minutes: str) -> None:
    said = ask("GET", f"/history?minutes={minutes}")
    assert (said.status, "Ask /history?minutes=60" in said.error) == (400, True)


def test_a_server_without_a_history_has_none() -> None:
    app = app_of_views(view := new_view(new_stream()))
    with serving(app, MemoryStoreReader(MemoryStore([view]), None), ProgressTable()) as ask:
        assert json.loads(ask("GET", "/history").body) == []
