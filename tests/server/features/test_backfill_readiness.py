"""A view with an incomplete backfill is not served, and the response says what is missing."""

import time
from pathlib import Path

import headrace as hr
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.features.backfill_readiness import BackfillReadiness
from headrace.spark.tiles.backfill_cutovers import Backfill, Cutover, base_tile_versions, save_backfill
from tests.server.server_thread import app_of_views, board_of, serving

payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(payments, by="card")
class Spend:
    payments = hr.count(windows="1h")


APP = app_of_views(Spend)
BACKFILL = Backfill("Spend", {Spend.streams[0].name: Cutover((5, 5), (4, 4))}, base_tile_versions(Spend))


class Behind(MemoryStoreReader):
    """A store that has taken in a changelog up to some offset."""

    offset = 0

    async def has_reached(self, ends: object) -> bool:
        return isinstance(ends, dict) and max(ends.values()) <= self.offset


def running() -> ProgressTable:
    board = board_of(APP)
    assert not board.missing_queries(APP.streams, APP.views)
    return board


def idle() -> ProgressTable:
    board = running()
    at_us = time.time_ns() // 1000
    board.reports(QueryProgress)["payments.tiles"] = QueryProgress(
        "tiles", "payments", ("Spend",), "draining", False, at_us
    )
    return board


def test_a_view_is_served_once_its_history_is_folded_stored_and_streamed_on(tmp_path: Path) -> None:
    online, board = Behind(MemoryStore(APP.views), None), idle()
    save_backfill(BACKFILL, tmp_path)
    with serving(APP, online, board, BackfillReadiness(tmp_path, online, board)) as ask:

        def missing() -> str:
            said, ready = ask.features(Spend, ["c1"]), ask("GET", "/v2/health/ready")
            assert (said.status, ready.status) == (503, 503)
            reason = said.error.removesuffix(". Ask again once /v2/health/ready says so.")
            assert reason.lower() in [sentence.lower() for sentence in ready.json["missing"]]
            return reason

        assert missing().endswith("`headrace backfill APP Spend`")
        save_backfill(BACKFILL.with_ends([3, 7]), tmp_path)
        assert missing() == "The history of Spend is not in the store yet"
        online.offset = 7
        assert missing() == "The stream has not gone on from the history of Spend yet"
        board.reports(QueryProgress).update(running().reports(QueryProgress))
        assert ask.features(Spend, ["c1"]).status == 200
        online.offset = 0
        assert ask.features(Spend, ["c1"]).status == 200


def test_a_view_without_a_history_is_served_at_once(tmp_path: Path) -> None:
    online, board = MemoryStoreReader(MemoryStore(APP.views), None), idle()
    with serving(APP, online, board, BackfillReadiness(tmp_path, online, board)) as ask:
        assert ask.features(Spend, ["c1"]).status == 200


def test_a_backfill_that_begins_after_the_server_is_noticed(tmp_path: Path) -> None:
    online, board = MemoryStoreReader(MemoryStore(APP.views), None), idle()
    with serving(APP, online, board, BackfillReadiness(tmp_path, online, board)) as ask:
        assert ask.features(Spend, ["c1"]).status == 200
        save_backfill(BACKFILL, tmp_path)
        assert ask.features(Spend, ["c1"]).status == 503
