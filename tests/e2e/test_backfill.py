"""A view added to a running app, with a backfill: from its first answer on it has every event once."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchTableError

from headrace.kafka.producer.producer import Producer
from headrace.lake.formats.registry import FORMATS, FormatName
from tests.lake.read_back import read_back
from tests.running import Running
from tests.waiting import patiently, wait_until

OLD = """
import headrace as hr

taps = hr.Stream("taps", schema="id string, card string, amount bigint, at timestamp", id="id", key="card", time="at")

@hr.features(taps, by="card")
class Counts:
    taps = hr.count(windows="1h")
"""
NEW = """
@hr.features(taps, by="card")
class Totals:
    number = hr.count(windows=["1h", "forever"])
    total = hr.sum("amount", windows="forever")
    last = hr.last("id", windows="1h")
"""
CARDS = ["a", "b", "c"]
LIMIT_S = 120

Taps = list[dict[str, Any]]


def taps(first: int, last: int) -> Taps:
    now = datetime.now(UTC).isoformat()
    return [{"id": f"t{n:05}", "card": CARDS[n % 3], "amount": n, "at": now} for n in range(first, last)]


def send(running: Running, events: Sequence[dict[str, Any]]) -> None:
    with Producer(running.broker) as producer:
        for event in events:
            producer.send("taps", json.dumps(event).encode(), key=event["card"])


def landed(running: Running) -> int:
    try:
        return int(read_back((running.state / "lake" / "silver" / "taps").resolve()).num_rows)
    except (TableNotFoundError, NoSuchTableError):
        return 0


def expected(events: Taps) -> list[dict[str, Any]]:
    mine = [[event for event in events if event["card"] == card] for card in CARDS]
    return [
        {
            "number_1h": len(own),
            "number_forever": len(own),
            "total_forever": sum(event["amount"] for event in own),
            "last_1h": max(own, key=lambda event: (event["at"], event["id"]))["id"],
        }
        for own in mine
    ]


def served(running: Running) -> list[dict[str, Any]] | None:
    """What is served, None where the view is not served yet."""
    try:
        status, answer = running._ask("POST", "/features/Totals", json.dumps({"keys": CARDS}))
    except OSError:
        return None
    assert status in (200, 503), answer
    return [row["values"] for row in json.loads(answer)["rows"]] if status == 200 else None


def backfill(running: Running, *flags: str) -> subprocess.CompletedProcess[str]:
    place = ["--state", str(running.state), "--broker", running.broker]
    command = [sys.executable, "-m", "headrace", "backfill", str(running.app), "Totals", *place, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=patiently(LIMIT_S), check=False)


@pytest.mark.timeout(600)
@pytest.mark.faults
@pytest.mark.parametrize("kind", FORMATS)
def test_a_view_added_to_a_running_app_has_every_event_once_from_its_first_answer_on(
    tmp_path: Path, kind: FormatName
) -> None:
    app, sent = tmp_path / "app.py", taps(0, 300)
    app.write_text(OLD)
    with Running(app, tmp_path / "state", "--lake-every", "1s", "--lake-format", kind) as running:
        running.wait_until_ready()
        send(running, sent)
        wait_until(lambda: landed(running) == len(sent), LIMIT_S, "all taps in the lake", running.said)
        app.write_text(OLD + NEW)
        done = backfill(running, "--json")
        assert done.returncode == 0, done.stderr
        assert sum(json.loads(done.stdout)["cut"]["taps"]) == len(sent)
        more = taps(300, 400)
        repeated = sent[::3]
        send(running, [*more, *repeated])
        clean = len(sent) + len(more) + len(repeated)
        wait_until(lambda: running.events("taps")["clean"] == clean, LIMIT_S, "all taps to pass the gate", running.said)
        running.stop()
        running.start()
        sent += more
        wait_until(lambda: served(running) is not None or running.ended(), LIMIT_S, "the first answer", running.said)
        assert served(running) == expected(sent)
        news = taps(400, 450)
        send(running, [*sent[::5], *news, *news])
        wait_until(lambda: served(running) == expected(sent + news), LIMIT_S, "the news to be served", running.said)
        assert running.wait_until_ready().stop() == 0
