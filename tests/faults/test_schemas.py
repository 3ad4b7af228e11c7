"""1,000 ids in Avro through three mixed schema versions, and the same in JSON: no error, and the same features.

writer first   v1 │ v1 v2 mixed, the reader knows of neither before it comes
reader first          │ restarted with a column nobody writes yet │ v1 v2 v3 mixed, the newest has it
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.embedded_servers.ports import free_port
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.schema_registry.record_encoder import AvroEncoder, register_encoder
from headrace.kafka.schema_registry.registry_client import SchemaRegistryClient, create_registry_client
from tests.kafka.avro import field, logical, optional, schema
from tests.running import Running
from tests.waiting import wait_until

APP = """
import headrace as hr

COLUMNS = "id string, card string, amount double, channel string{more}, at timestamp"
plain = hr.Stream("plain", schema=COLUMNS, id="id", key="card", time="at")
coded = hr.Stream(
    "coded", schema=COLUMNS, id="id", key="card", time="at", format="avro", registry="{url}"{settings}
)

@hr.features(plain, by="card")
class Plain:
    taps = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")
    most = hr.max("amount", windows="1h")
    channels = hr.distinct("channel", windows="1h")

@hr.features(coded, by="card")
class Coded:
    taps = hr.count(windows="1h")
    spend = hr.sum("amount", windows="1h")
    most = hr.max("amount", windows="1h")
    channels = hr.distinct("channel", windows="1h")
"""
BASE = (field("id", "string"), field("card", "string"), field("at", logical("timestamp-micros")))
V1 = schema(*BASE, field("amount", "float"))
V2 = schema(*BASE, field("amount", "double"), optional("channel", "string"))
V3 = schema(*BASE, field("amount", "double"), optional("channel", "string"), optional("note", "string"))
WRONG = schema(*BASE, field("amount", "string"))
CARDS = 20
SUBJECT = "coded-value"


class Both:
    """The same events, to one stream in JSON and to the other in Avro."""

    def __init__(self, broker: str) -> None:
        self._broker, self._sent = broker, 0

    def send(self, count: int, *encoders: AvroEncoder) -> None:
        with Producer(self._broker) as producer:
            for number in range(self._sent, self._sent + count):
                encoder = encoders[number % len(encoders)]
                known = {one["name"] for one in encoder.parsed_schema["fields"]}
                every = {"id": str(number), "card": f"c{number % CARDS}", "amount": number * 0.5}
                more = {"channel": f"ch{number % 5}", "note": "n", "at": datetime.now(UTC)}
                event = {name: value for name, value in {**every, **more}.items() if name in known}
                producer.send("plain", event, key=event["card"])
                producer.send("coded", encoder.encode(event), key=event["card"])
        self._sent += count


def fates(running: Running, fate: str) -> tuple[int, int]:
    return running.events("plain")[fate], running.events("coded")[fate]


def has_counted(running: Running, count: int) -> bool:
    return all(sum(one["taps_1h"] or 0 for one in values(running, view)) == count for view in ("Plain", "Coded"))


def same(running: Running) -> bool:
    return values(running, "Plain") == values(running, "Coded")


def values(running: Running, view: str) -> list[dict[str, Any]]:
    return [row["values"] for row in running.features(view, [f"c{number}" for number in range(CARDS)])]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "headrace", *words], capture_output=True, text=True, check=False)


@pytest.mark.faults
def test_three_versions_in_flight_give_the_features_of_json(tmp_path: Path) -> None:
    app, port = tmp_path / "app.py", free_port()
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    app.write_text(APP.format(url=url, more="", settings=""))
    running = Running(app, tmp_path / "state", "--registry", "--registry-port", str(port), "--checkpoint", "10s")
    registry = create_registry_client(url)
    with running:
        running.wait_until_ready()
        both = Both(running.broker)
        first = register_encoder(registry, SUBJECT, V1)
        both.send(300, first)
        second = register_encoder(registry, SUBJECT, V2)
        both.send(300, first, second)
        wait_until(lambda: has_counted(running, 600), 180, "600 events", running.said)
        assert same(running)
        running.stop()
        app.write_text(APP.format(url=url, more=", note string", settings=""))
        running.start()
        running.wait_until_ready()
        both.send(200, first, second)
        wait_until(lambda: has_counted(running, 800), 180, "800 events", running.said)
        both.send(200, first, second, register_encoder(registry, SUBJECT, V3))
        wait_until(lambda: has_counted(running, 1000), 180, "1000 events", running.said)
        assert same(running)
        assert fates(running, "dead") == (0, 0)
        _traced(app, running)
        _incompatible(app, url, running, registry)


def _traced(app: Path, running: Running) -> None:
    """An event is found by its id, though its raw bytes are no JSON."""
    said = command("trace", str(app), "990", "--broker", running.broker, "--json")
    assert said.returncode == 0, said.stderr
    steps = [step["what"] for way in json.loads(said.stdout) for step in way]
    assert steps.count("clean") == 2, said.stdout
    assert "folded" in steps


def _incompatible(app: Path, url: str, running: Running, registry: SchemaRegistryClient) -> None:
    """Refused by the registry, then, forced in, by the plan; its records are dead letters one by one."""
    assert registry.check_compatibility(SUBJECT, "AVRO", WRONG)
    registry.set_compatibility(SUBJECT, "NONE")
    wrong = register_encoder(registry, SUBJECT, WRONG)
    app.write_text(APP.format(url=url, more=", note string", settings=', compatibility="backward"'))
    said = command("plan", str(app), "--state", str(running.state))
    assert said.returncode == 1
    assert "field amount: it is written as string" in said.stdout
    event = {"id": "x", "card": "c1", "amount": "much", "at": datetime.now(UTC)}
    with Producer(running.broker) as producer:
        for number in range(10):
            producer.send("coded", wrong.encode({**event, "id": f"x{number}"}), key="c1")
    wait_until(lambda: fates(running, "dead")[1] >= 10, 180, "10 dead letters", running.said)
    offsets = OffsetClient(running.broker)
    dead = read_offset_range(
        running.broker, offsets.topic_start_offsets(["coded.dead"]), offsets.topic_end_offsets(["coded.dead"])
    )
    reasons = [(one.header("headrace.offset"), one.header("headrace.reason") or b"") for one in dead]
    assert len(set(reasons)) == 10
    assert all(reason.startswith(b"incompatible-schema: id ") and b"field amount" in reason for _, reason in reasons)
