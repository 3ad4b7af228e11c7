"""The query process: limited, without secrets, stopped where necessary, and restarted for the next query."""

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.sql import worker_client as process_module
from headrace.sql.errors import QueryTimeoutError, SqlRefused
from headrace.sql.worker_client import SqlProcess
from headrace.sql.worker_messages import LiveRowsMessage, SqlRequest, encode_message
from tests.sql.lakes import land, payment, payments
from tests.waiting import wait_until

LIVE = {"CardSpend": {"card": "VARCHAR", "spend": "DOUBLE"}}
ENDLESS = " + ".join(f"length(repeat('{letter}', 500000000))" for letter in "abcdefgh")  # DuckDB cannot interrupt this


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlProcess]:
    lake = tmp_path_factory.mktemp("lake")
    land(lake, payments, [payment(number) for number in range(20)])
    os.environ["HEADRACE_WEBHOOK"] = "https://example.com/canary"
    made = SqlProcess(lake, LIVE)
    yield made
    made.stop()
    del os.environ["HEADRACE_WEBHOOK"]


def ask(process: SqlProcess, sql: str, *live: bytes, seconds: float = 10.0) -> Any:
    return json.loads(process.run_query(SqlRequest(sql, 100, 1 << 20, seconds), live))["rows"]


def test_the_lake_and_rows_that_came_in_pieces_are_read_together(process: SqlProcess) -> None:
    pieces = [encode_message(LiveRowsMessage("CardSpend", [[f"c{number}", number / 2]])) for number in range(3)]
    found = ask(
        process,
        "select card, spend, count(id) from CardSpend left join payments using (card) group by all order by 1",
        *pieces,
    )
    cards = [payment(number)["card"] for number in range(20)]
    assert found == [[f"c{number}", number / 2, cards.count(f"c{number}")] for number in range(3)]


def test_it_gives_way_can_write_no_file_and_knows_no_secret(process: SqlProcess) -> None:
    ask(process, "select 1")
    assert process.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, process.pid) >= 10
    assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE) == (0, 0)
    assert b"canary" not in Path(f"/proc/{process.pid}/environ").read_bytes()


def test_it_ends_with_its_server_and_one_that_has_ended_is_started_again(process: SqlProcess) -> None:
    ask(process, "select 1")
    before, running = process.pid, process._process
    assert running is not None
    assert running.stdin is not None
    running.stdin.close()  # as it is where the server has died
    wait_until(lambda: running.poll() is not None, 10, "its end")
    assert ask(process, "select count(*) from payments") == [[20]]
    assert process.pid != before


def test_a_query_that_cannot_be_interrupted_is_ended_with_its_process(
    process: SqlProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "GRACE_SECONDS", 0.2)
    ask(process, "select 1")
    with pytest.raises(QueryTimeoutError, match=r"ended after 0\.2 s"):
        ask(process, f"select {ENDLESS}", seconds=0.2)
    assert process.pid is None
    assert ask(process, "select count(*) from payments") == [[20]]


def test_memory_that_duckdb_does_not_reckon_is_limited_too(process: SqlProcess) -> None:
    with pytest.raises(SqlRefused, match="more memory"):
        ask(process, "select repeat('x', 2000000000)")
    assert ask(process, "select 1") == [[1]]
