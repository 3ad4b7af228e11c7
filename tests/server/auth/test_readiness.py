"""Readiness separates "can answer", "is fresh" and "everything runs", and says what is down to authorized readers."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.kafka.status.reports.lake import IngestionProgress
from headrace.kafka.status.reports.parts import PartProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.online_store.feature_lookup import StoreNotReadyError
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.auth.api_tokens import create_token
from headrace.server.auth.scopes import Scope
from tests.kafka.streams import new_stream, new_view
from tests.server.secured_server import bearer, guard_of
from tests.server.server_thread import Asking, app_of_views, board_of, serving

VIEW = new_view(new_stream())
APP = app_of_views(VIEW)
READY = "/v2/health/ready"
LEVELS = ("answers", "fresh", "complete")


def lake_down() -> PartProgress:
    now_us = time.time_ns() // 1000
    return PartProgress("lake", now_us, "restarting", 3, now_us - 12_000_000, "The disk is full.", "No rows.", "shop")


def statuses(ask: Asking) -> list[int]:
    return [ask("GET", f"{READY}?level={level}").status for level in LEVELS]


def filled() -> MemoryStoreReader:
    return MemoryStoreReader(MemoryStore([VIEW]), None)


def test_everything_runs() -> None:
    with serving(APP, filled(), board_of(APP)) as ask:
        said = ask("GET", READY)
        assert said.json == {
            "ready": True,
            "answers": True,
            "fresh": True,
            "complete": True,
            "missing": [],
            "down": [],
        }
        assert statuses(ask) == [200, 200, 200]


def test_a_part_that_is_down_leaves_the_server_ready_but_not_complete() -> None:
    board = board_of(APP)
    down = lake_down()
    board.put(down)
    with serving(APP, filled(), board) as ask:
        said = ask("GET", READY)
        assert (said.status, said.json["fresh"], said.json["complete"]) == (200, True, False)
        assert [(one["what"], one["why"], one["affects"]) for one in said.json["down"]] == [
            ("part lake", "The disk is full.", "No rows.")
        ]
        assert statuses(ask) == [200, 200, 503]
        board.put(replace(down, state="running", down_since_us=None))
        assert statuses(ask) == [200, 200, 200]


def test_a_query_that_stops_leaves_the_server_answering_but_not_fresh() -> None:
    board = board_of(APP)
    name = f"{APP.streams[0].name}.gate"
    board.reports(QueryProgress)[name] = replace(
        board.reports(QueryProgress)[name], running=False, error="The topic is gone."
    )
    with serving(APP, filled(), board) as ask:
        said = ask("GET", READY)
        assert said.status == 503
        assert said.json["missing"] == [f"the gate of {APP.streams[0].name} does not run yet"]
        assert said.json["down"][0]["why"] == "The topic is gone."
        assert statuses(ask) == [200, 503, 503]


def test_a_store_that_is_being_filled_answers_nothing() -> None:
    class Filling(MemoryStoreReader):
        async def readiness_problems(self) -> list[str]:
            return ["the store has 5 records of its changelogs to read"]

        def _require_filled(self) -> None:
            raise StoreNotReadyError("Filling.")

    with serving(APP, Filling(MemoryStore([VIEW]), None), board_of(APP)) as ask:
        assert statuses(ask) == [503, 503, 503]
        assert ask("GET", READY).json["missing"] == ["the store has 5 records of its changelogs to read"]


@pytest.mark.parametrize("level", ["", "ready", "Fresh", "%ff"])
def test_a_level_that_is_none_is_refused(level: str) -> None:
    with serving(APP, filled(), board_of(APP)) as ask:
        said = ask("GET", f"{READY}?level={level}")
        if level:
            assert (said.status, "level=answers, level=fresh or level=complete" in said.error) == (400, True)
        else:
            assert said.status == 200


def test_a_stranger_is_told_yes_or_no_of_every_level_and_nothing_else(tmp_path: Path) -> None:
    token = create_token(tmp_path, "reader", frozenset({Scope.READ}))
    board = board_of(APP)
    board.put(lake_down())
    with serving(APP, filled(), board, guard=guard_of(tmp_path)) as ask:
        assert ask("GET", READY).json == {"ready": True}
        complete = ask("GET", f"{READY}?level=complete")
        assert (complete.status, complete.json) == (503, {"ready": False})
        assert ask("GET", READY, headers=bearer(token)).json["down"][0]["what"] == "part lake"


def test_metrics_tell_what_is_up_how_often_it_was_restarted_and_how_many_are_down() -> None:
    board = board_of(APP)
    board.put(lake_down())
    board.put(replace(lake_down(), part="serve", state="running", restarts=0))
    stuck = IngestionProgress(
        "silver/taps", 1, 0, 5, 0.1, APP.streams[0].clean, down_since_us=1, error="No statistics."
    )
    board.put(stuck)
    with serving(APP, filled(), board) as ask:
        told = ask("GET", "/metrics").body.decode().splitlines()
    assert {
        line for line in told if line.startswith(("headrace_part_", "headrace_lake_table_up", "headrace_down"))
    } == {
        'headrace_part_up{part="lake"} 0.0',
        'headrace_part_up{part="serve"} 1.0',
        'headrace_part_restarts_total{part="lake"} 3.0',
        'headrace_part_restarts_total{part="serve"} 0.0',
        'headrace_lake_table_up{table="silver/taps"} 0.0',
        'headrace_down{kind="part"} 1.0',
        'headrace_down{kind="query"} 0.0',
        'headrace_down{kind="table"} 1.0',
    }
    assert sum(line.startswith("headrace_query_up{") and line.endswith(" 1.0") for line in told) == 2
