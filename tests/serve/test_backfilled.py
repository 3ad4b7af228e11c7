"""A view whose history is not whole is not served, and says what is missing."""

import time
from pathlib import Path

import headrace as hr
from headrace.log.progress import ProgressBoard, QueryProgress
from headrace.serve.backfilled import Histories
from headrace.store.memory import MemoryStore
from headrace.store.online import MemoryOnline
from headrace.stream.backfills import Backfill, Cut, keep, versions_of
from tests.serve.serving import app_of_views, board_of, serving

payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(payments, by="card")
class Spend:
    payments = hr.count(windows="1h")


APP = app_of_views(Spend)
BACKFILL = Backfill("Spend", {Spend.streams[0].name: Cut((5, 5), (4, 4))}, versions_of(Spend))


class Behind(MemoryOnline):
    """A store that has taken in a changelog up to some offset."""

    offset = 0

    async def reached(self, ends: object) -> bool:
        return isinstance(ends, dict) and max(ends.values()) <= self.offset


def running() -> ProgressBoard:
    board = board_of(APP)
    assert not board.missing(APP.streams, APP.views)
    return board


def idle() -> ProgressBoard:
    board = running()
    at_us = time.time_ns() // 1000
    board.latest["payments.tiles"] = QueryProgress("tiles", "payments", ("Spend",), "draining", False, at_us)
    return board


def test_a_view_is_served_once_its_history_is_folded_stored_and_streamed_on(tmp_path: Path) -> None:
    online, board = Behind(MemoryStore(APP.views), None), idle()
    keep(BACKFILL, tmp_path)
    with serving(APP, online, board, Histories(tmp_path, online, board)) as ask:

        def missing() -> str:
            said, ready = ask.features(Spend, ["c1"]), ask("GET", "/v2/health/ready")
            assert (said.status, ready.status) == (503, 503)
            reason = said.error.removesuffix(". Ask again once /v2/health/ready says so.")
            assert reason.lower() in [sentence.lower() for sentence in ready.json["missing"]]
            return reason

        assert missing().endswith("`headrace backfill APP Spend`")
        keep(BACKFILL.done([3, 7]), tmp_path)
        assert missing() == "The history of Spend is not in the store yet"
        online.offset = 7
        assert missing() == "The stream has not gone on from the history of Spend yet"
        board.latest.update(running().latest)
        assert ask.features(Spend, ["c1"]).status == 200
        online.offset = 0
        assert ask.features(Spend, ["c1"]).status == 200


def test_a_view_without_a_history_is_served_at_once(tmp_path: Path) -> None:
    online, board = MemoryOnline(MemoryStore(APP.views), None), idle()
    with serving(APP, online, board, Histories(tmp_path, online, board)) as ask:
        assert ask.features(Spend, ["c1"]).status == 200


def test_a_backfill_that_begins_after_the_server_is_noticed(tmp_path: Path) -> None:
    online, board = MemoryOnline(MemoryStore(APP.views), None), idle()
    with serving(APP, online, board, Histories(tmp_path, online, board)) as ask:
        assert ask.features(Spend, ["c1"]).status == 200
        keep(BACKFILL, tmp_path)
        assert ask.features(Spend, ["c1"]).status == 503
