"""POST /sql and the panels of saved queries: the values of /features, and a query delays no other request."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.declare.app import App
from headrace.declare.features.view import require_view
from headrace.embedded_servers.ports import HOST, free_port
from headrace.online_store.factory import create_store_reader
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader
from headrace.server import sql_route as sql_module
from headrace.server.sql_route import LiveTableReader
from headrace.sql.worker_messages import LiveRowsMessage, decode_message
from tests.browser import Browser
from tests.processes import command_of, own_children
from tests.server.server_thread import Asking, Said, board_of, serving, tiles_of
from tests.servers import OwnRedis
from tests.sql.lakes import land
from tests.waiting import SOCKET_S, wait_until

taps = hr.Stream(
    "taps",
    schema="id string, card string, zone bigint, amount double, cents bigint, at timestamp",
    id="id",
    key="card",
    time="at",
)


@hr.features(taps, by=["card", "zone"])
class Spend:
    taps = hr.count(windows=["10m", "1h"])
    by = hr.count(by="card", windows="1h")
    spend = hr.sum("amount", windows=["10m", "1h"])
    cents = hr.sum("cents", windows="1h")
    mean = hr.mean("amount", windows="1h")
    last = hr.last("card", windows="1h")
    latest = hr.max("at", windows="1h")
    top = hr.top("card", 2, windows="1h")
    burst = taps["10m"] / taps["1h"]
    asked = hr.request("amount", "double") / mean["1h"]


def events(count: int) -> list[dict[str, Any]]:
    """Taps of the last two hours: some entities have none in any window."""
    now = datetime.now(UTC)
    return [
        {
            "id": f"t{number}",
            "card": f"old{number % 3}" if number >= 250 else f"c{number % 7}" if number % 5 else "<b>it's</b>",
            "zone": number % 2,
            "amount": float("inf") if number == 3 else number / 8,
            "cents": 2**62 + number,
            "at": (now - timedelta(seconds=20 * number + 5)).isoformat(),
        }
        for number in range(count)
    ]


EVENTS = events(400)
VIEW = require_view(Spend)


GOOD = hr.Query("cards <b>", "select card, sum(taps_1h) as taps from Spend group by 1 order by 1", every="1s")
BAD = hr.Query("gone", "select * from silver.gone", every="1h")


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A server of the events, with a lake that has them too and two saved queries."""
    lake, store = tmp_path_factory.mktemp("lake"), MemoryStore([VIEW])
    land(lake, taps, [{**event, "at": datetime.fromisoformat(event["at"])} for event in EVENTS])
    store.apply(tiles_of(VIEW, EVENTS))
    app = App("shop", (taps,), (VIEW,), queries=(GOOD, BAD))
    with serving(app, MemoryStoreReader(store, None), board_of(app), lake=lake) as asking:
        yield asking


def sql(ask: Asking, query: str, **more: Any) -> Said:
    return ask("POST", "/sql", {"sql": query, **more})


def at_one_time(ask: Asking, keys: list[list[Any]]) -> tuple[Said, Said, list[dict[str, Any]]]:
    """Results of SQL, and of /features before and after it: an event leaves some window every few seconds."""
    while True:
        before, said = ask.rows(VIEW, keys), sql(ask, "select * from live.Spend")
        totals = sql(ask, "select sum(taps_1h), count(*), max(cents_1h) from spend")
        if [row["values"] for row in ask.rows(VIEW, keys)] == [row["values"] for row in before]:
            return said, totals, before


def test_a_live_table_is_what_features_answers_for_every_key(ask: Asking) -> None:
    keys = sorted({(event["card"], event["zone"]) for event in EVENTS})
    said, totals, rows = at_one_time(ask, [*map(list, keys), ["nobody", 0]])
    assert said.status == 200, said.body
    names = [column["name"] for column in said.json["columns"]]
    found = {(row[0], row[1]): dict(zip(names, row, strict=True)) for row in said.json["rows"]}
    served = {(row["card"], row["zone"]): row for row in rows if row["event_time"] is not None}
    assert 5 < len(served) < len(keys)
    assert found.keys() == served.keys()
    for key, row in served.items():
        whole = {"card": row["card"], "zone": row["zone"], **row["values"], "hr_event_time": row["event_time"]}
        assert found[key] == whole
    (total,) = totals.json["rows"]
    values = [row["values"] for row in served.values()]
    assert total == [sum(one["taps_1h"] for one in values), len(served), max(one["cents_1h"] for one in values)]
    assert total[2] > 2**63


def test_lake_and_live_are_asked_together(ask: Asking) -> None:
    query = "select count(*) from silver.taps join live.Spend using (card, zone) where taps_1h > 0"
    rows = ask.rows(VIEW, [[event["card"], event["zone"]] for event in EVENTS])
    assert sql(ask, query).json["rows"] == [[sum(row["values"]["taps_1h"] > 0 for row in rows)]]
    cut = sql(ask, "from silver.taps", limit=3).json
    assert (len(cut["rows"]), cut["cut"]) == (3, True)
    answer = hr.Client(f"http://{HOST}:{ask.port}").sql("select count(*) as taps from taps")
    assert (answer.columns, answer.rows) == ([{"name": "taps", "type": "BIGINT"}], [[len(EVENTS)]])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "not JSON"),
        ([], "Write"),
        ({"sql": 3}, "Write"),
        ({"sql": "select 1", "more": 1}, "Write"),
        ({"sql": "select 1", "limit": 0}, "limit"),
        ({"sql": "select 1", "limit": True}, "limit"),
        ({"sql": "select 1", "limit": 10**6}, "limit"),
        ({"sql": "drop view silver.taps"}, "DROP is not answered"),
        ({"sql": "select * from read_text('/etc/passwd')"}, "no files"),
    ],
)
def test_a_question_that_is_wrong_is_refused_with_a_sentence(ask: Asking, body: Any, words: str) -> None:
    said = ask("POST", "/sql", body)
    assert said.status == 400
    assert words in said.error


def test_features_are_answered_while_a_query_takes_all_its_time(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_module, "QUERY_SECONDS", 1.0)
    assert sql(ask, "select 1").status == 200
    ended, answered = list[Said](), 0
    endless = "select count(*) from range(1000000) a, range(1000000) b"
    slow = threading.Thread(target=lambda: ended.append(sql(ask, endless)))
    slow.start()
    while slow.is_alive():
        assert len(ask.rows(VIEW, [["c1", 0]])) == 1
        answered += slow.is_alive()
    slow.join()
    assert answered
    assert ended[0].status == 400
    assert "ended after 1 s" in ended[0].error
    assert sql(ask, "select 1").status == 200


def worker() -> Path:
    """The process of queries, as the system shows it."""
    (pid,) = [pid for pid in own_children() if "headrace.sql.worker_main" in command_of(pid)]
    return Path(f"/proc/{pid}")


def cpu_ticks(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[11])


def test_a_query_is_ended_once_nobody_waits_for_it(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_module, "QUERY_SECONDS", 300.0)
    assert sql(ask, "select 1").status == 200
    process, body = worker(), b'{"sql": "select count(*) from range(1000000) a, range(1000000) b"}'
    before = cpu_ticks(process)
    with socket.create_connection((HOST, ask.port), timeout=30) as client:
        client.sendall(b"POST /sql HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        wait_until(lambda: cpu_ticks(process) > before + 20, 60, "the query to run")
    wait_until(lambda: not process.exists(), 60, "the query to end")
    assert sql(ask, "select 1").status == 200


def test_too_many_entities_and_too_many_who_wait_are_refused(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_module, "MAX_LIVE_ENTITIES", 3)
    for query in ("from live.Spend", "select count(*) from Spend where taps_1h > 3"):
        said = sql(ask, query)
        assert said.status == 400
        assert "a query may read 3" in said.error
    assert sql(ask, "select count(*) as spend from silver.taps").json["rows"] == [[len(EVENTS)]]  # it only has its name
    monkeypatch.setattr(sql_module, "MAX_WAITING_QUERIES", 0)
    assert sql(ask, "select 1").status == 503


def named(query: str, online: OnlineStoreReader) -> list[LiveRowsMessage]:
    live = LiveTableReader(App("shop", (taps,), (VIEW,)), online, None)
    return [decode_message(message) for message in asyncio.run(live.read_named_tables(query))]


def test_a_panel_over_a_live_table_is_answered_from_redis(ask: Asking, tmp_path: Path) -> None:
    server = OwnRedis(tmp_path)
    server.start()
    app = App("shop", (taps,), (VIEW,), queries=(GOOD,))
    online = create_store_reader(app, f"{HOST}:{free_port()}", server.url)
    try:
        online.store.apply(tiles_of(VIEW, EVENTS))
        with serving(app, online, board_of(app)) as of_redis:
            wait_until(lambda: panel(of_redis) == panel(ask) != [], limit_s=60, what="both stores to answer alike")
            server.stop()
            wait_until(lambda: is_missed(of_redis), limit_s=60, what="Redis to be missed")
            assert sql(of_redis, "select 1").json["rows"] == [[1]]
    finally:
        server.stop()


def is_missed(ask: Asking) -> bool:
    return "does not answer" in sql(ask, "from live.Spend").error


def panel(ask: Asking) -> list[Any]:
    (answered, *_) = ask("GET", "/panels").json["panels"]
    return list(answered["answer"]["rows"]) if answered["answer"] else []


@pytest.mark.parametrize(
    ("query", "is_read"),
    [
        ("select * from live.Spend", True),
        ('select * from LIVE . "spend" where 1', True),
        ("select * from memory.live.Spend", True),
        ("select 1 from taps join Spend on true", True),
        ("select * from gold.Spend_tiles", False),
        ('select * from gold . "Spend"', False),
        ("select s.spend from silver.taps s", False),
        ("select * from MySpend", False),
    ],
)
def test_the_rows_of_a_live_table_are_read_where_a_query_names_it(query: str, is_read: bool) -> None:
    assert bool(named(query, MemoryStoreReader(MemoryStore([VIEW]), None))) is is_read


def test_panels_are_answered_and_told_to_listeners_when_they_are_asked_anew(ask: Asking) -> None:
    first, second = ask("GET", "/panels").json["panels"]
    assert (first["name"], second["name"]) == (GOOD.name, BAD.name)
    assert first["answer"]["rows"][0][0] == "<b>it's</b>"
    assert first["error"] is None
    assert second["answer"] is None
    assert "gone does not exist" in second["error"]
    told = _events(ask.port, 3)
    assert {panel["name"] for panel in told} == {GOOD.name, BAD.name}
    assert max(panel["at"] for panel in told if panel["name"] == GOOD.name) > first["at"]


def test_a_panel_is_shown_as_text(ask: Asking, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(f"http://{HOST}:{ask.port}/")
        shown = "document.querySelector('[data-panel=\"cards <b>\"] tbody th')?.textContent"
        wait_until(lambda: browser.value(shown) == "<b>it's</b>", 20, "the panel to be shown")
        refused = "document.querySelector('[data-panel=gone] small')?.textContent"
        wait_until(lambda: "gone does not exist" in (browser.value(refused) or ""), 20, "the other to say why not")
        assert browser.value("document.querySelectorAll('#panels b').length") == 0
        assert browser.console == []


def _events(port: int, count: int) -> list[dict[str, Any]]:
    """The first panels that /live sends."""
    said = b""
    with socket.create_connection((HOST, port), timeout=SOCKET_S) as client:
        client.sendall(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n")
        while said.count(b"event: panel\n") <= count:
            said += client.recv(1 << 16)
    pieces = said.split(b"event: panel\ndata: ")[1 : count + 1]
    return [json.loads(piece.partition(b"\n")[0]) for piece in pieces]
