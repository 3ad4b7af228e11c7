"""Events and their features through Spark to ClickHouse: the rows equal the server's answers and what was sent."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.producer.producer import Producer
from headrace.tiles.finish import EPOCH
from tests.clickhouse import OwnClickHouse
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("published_app.py")
SENT = 300


def tap(number: int) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {"id": f"t{number}", "card": f"c{number % 7}", "amount": number / 4, "at": at}


def rows(server: OwnClickHouse, table: str) -> list[dict[str, Any]]:
    known = server.ask(f"SELECT 1 FROM system.tables WHERE name = '{table}'")
    return server.ask(f"SELECT * FROM {table} FINAL") if known else []


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_stream_and_its_features_in_clickhouse_are_what_was_sent_and_what_the_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "clickhouse").mkdir()
    server = OwnClickHouse(folder)
    server.start()
    monkeypatch.setenv("CLICKHOUSE_URL", server.url)
    sent = []
    try:
        with Running(APP, tmp_path / "state") as app:
            app.wait_until_ready()
            with Producer(app.broker) as producer:
                for number in range(SENT):
                    sent.append(tap(number))
                    producer.send("taps", sent[-1], key=sent[-1]["card"])
            wait_until(lambda: len(rows(server, "taps")) >= SENT, 120, "all events", app.said)
            wait_until(lambda: sum(row["taps_1h"] for row in rows(server, "features")) >= SENT, 120, "all", app.said)
            found, events = rows(server, "features"), rows(server, "taps")
            for row in found:
                at = (EPOCH + timedelta(microseconds=row["as_of"])).isoformat()
                (served,) = app.features("Taps", [row["card"]], at)
                assert served["values"] == {name: row[name] for name in ("taps_1m", "taps_1h", "spend_1h", "mean")}
    finally:
        server.stop()
    assert sorted((row["id"], row["amount"]) for row in events) == sorted((one["id"], one["amount"]) for one in sent)
    amounts = defaultdict(list)
    for one in sent:
        amounts[one["card"]].append(one["amount"])
    assert {row["card"]: (row["taps_1h"], row["spend_1h"]) for row in found} == {
        card: (len(some), sum(some)) for card, some in amounts.items()
    }
