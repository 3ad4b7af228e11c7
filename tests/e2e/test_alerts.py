"""Bad records through broker, gate and server: an alert fires once, also across a kill -9, and resolves."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.embedded_servers.ports import HOST
from headrace.kafka.consumers.last_records import LastRecordsReader
from headrace.kafka.producer.producer import Producer
from tests.running import Running
from tests.telemetry.https_server import SECRET, Listening, answer, listening, self_signed
from tests.waiting import patiently, wait_until

APP = Path(__file__).with_name("alerted_app.py")


def send(running: Running, first: int, count: int, amount: float) -> None:
    now_ms = time.time_ns() // 1_000_000
    with Producer(running.broker) as producer:
        for number in range(first, first + count):
            event = {"id": f"t{number}", "card": "c1", "amount": amount, "at": now_ms}
            producer.send("taps", event, key="c1")


def told(server: Listening, name: str) -> list[str]:
    return [one["status"] for body in list(server.bodies) for one in body["alerts"] if one["name"] == name]


def alerts(running: Running, *words: str) -> dict[str, dict[str, Any]]:
    """`headrace alerts APP …`, by name."""
    command = [sys.executable, "-m", "headrace", "alerts", str(APP), *words, "--broker", running.broker, "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=patiently(60))
    return {row["name"]: row for row in json.loads(said.stdout)}


@pytest.mark.timeout(600)
@pytest.mark.faults
def test_dead_letters_are_alarmed_and_the_alarm_ends_with_them(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with listening(certificate, answer(200)) as server:
        hook = ("--webhook", server.url, "--webhook-allow", HOST, "--webhook-ca", str(certificate))
        with Running(APP, tmp_path / "state", "--alerts-every", "500ms", "--lake", "off", *hook) as running:
            running.wait_until_ready()
            wait_until(lambda: running.events("taps"), 60, "the ledger to have read the past", running.said)
            # Alerts are evaluated once before any event: earlier values raise no alert.
            since = time.time()
            wait_until(lambda: looked_at(running) > since + 1, 60, "a look", running.said)
            assert alerts(running, "ls")["bad taps"]["status"] == "ok"

            send(running, 0, 60, amount=-1.0)
            send(running, 100, 40, amount=1.0)
            wait_until(lambda: told(server, "bad taps"), 90, "the alert to be told", running.said)
            assert told(server, "bad taps") == ["firing"]
            wait_until(lambda: told(server, "taps: dead letters"), 30, "the default alert as well", running.said)
            row = alerts(running, "ls")["bad taps"]
            assert (row["status"], row["silenced_until"]) == ("firing", None)
            assert "of 100 in 10s" in row["said"]
            assert running.metrics()["headrace_alerts_firing", ""] >= 1

            silenced = alerts(running, "silence", "taps: dead letters", "1h")
            assert silenced["taps: dead letters"]["silenced_until"] is not None
            running.kill("watch")

            def resolved() -> bool:
                send(running, time.time_ns(), 20, amount=1.0)
                time.sleep(0.5)
                return len(told(server, "bad taps")) > 1

            wait_until(resolved, 120, "the alert to be resolved", running.said)
            wait_until(lambda: status(running, "taps: dead letters") == "ok", 60, "the default to end", running.said)
            assert told(server, "bad taps") == ["firing", "resolved"]
            assert told(server, "taps: dead letters") == ["firing"]  # its end was silenced
            words = [
                json.loads(record.value or b"{}")
                for record in LastRecordsReader(running.broker, "headrace.alerts", 10**6).read_new_records()
            ]
            phases = [word["status"] for word in words if word.get("name") == "bad taps"]
            assert list(dict.fromkeys(phases)) in (["pending", "firing", "ok"], ["firing", "ok"])
        assert SECRET not in running.said()
        assert SECRET not in "".join(file.read_text() for file in (tmp_path / "state" / "logs").iterdir())


def looked_at(running: Running) -> float:
    return running.metrics().get(("headrace_watch_at_seconds", ""), 0.0)


def status(running: Running, name: str) -> str:
    return str(alerts(running, "ls")[name]["status"])
