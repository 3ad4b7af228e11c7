"""Events through broker, gate, lake and store: SQL returns their values, live and landed, and a panel shows them."""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.producer.producer import Producer
from tests.running import Running
from tests.waiting import patiently, wait_until

APP = Path(__file__).with_name("saved_query_app.py")
SENT = [{"id": f"t{number}", "card": f"c{number % 7}", "amount": number / 4} for number in range(300)]


def asked(running: Running, query: str) -> list[list[Any]]:
    """`headrace sql QUERY`."""
    flags = ["--http", f"127.0.0.1:{running.http_port}", "--lake", str(running.state / "lake"), "--json"]
    command = [sys.executable, "-m", "headrace", "sql", query, *flags]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patiently(120))
    assert said.returncode == 0, said.stderr
    return list(json.loads(said.stdout)["rows"])


@pytest.mark.timeout(600)
@pytest.mark.faults
def test_sql_says_what_the_events_say(tmp_path: Path) -> None:
    by_card = {event["card"]: [one["amount"] for one in SENT if one["card"] == event["card"]] for event in SENT}
    truth = [[card, len(amounts), sum(amounts)] for card, amounts in sorted(by_card.items())]
    with Running(APP, tmp_path / "state", "--lake-every", "2s") as running:
        running.wait_until_ready()
        with Producer(running.broker) as producer:
            for event in SENT:
                producer.send("taps", event | {"at": time.time_ns() // 1_000_000}, key=str(event["card"]))
        live = "select card, taps_1h, spend_1h from live.Spend order by card"
        wait_until(lambda: asked(running, live) == truth, 60, "the live table to have all", running.said)
        landed = "select card, count(*), sum(amount) from silver.taps group by 1 order by 1"
        wait_until(lambda: _landed(running), 120, "all to land", running.said)
        assert asked(running, landed) == truth
        rows = running.features("Spend", [card for card, *_ in truth])
        assert [[row["card"], row["values"]["taps_1h"], row["values"]["spend_1h"]] for row in rows] == truth
        with urllib.request.urlopen(f"http://127.0.0.1:{running.http_port}/panels", timeout=60) as said:
            (panel,) = json.loads(said.read())["panels"]
        best = sorted(truth, key=lambda row: (-row[2], row[0]))[:3]
        assert panel["answer"]["rows"] == [[card, spend] for card, _, spend in best]
    assert asked(running, landed) == truth  # without a server, from the lake


def _landed(running: Running) -> bool:
    tables = asked(running, "select count(*) from duckdb_views() where schema_name = 'silver' and view_name = 'taps'")
    return tables == [[1]] and asked(running, "select count(*) from silver.taps") == [[len(SENT)]]
