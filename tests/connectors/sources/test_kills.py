"""kill -9 of a bridge during traffic; and the fraud example's payments through NATS, value by value."""

import json
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from examples.fraud.payments import Fate, Timeline
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from tests.connectors.sources.nats_server import OwnNats
from tests.connectors.sources.test_nats import in_order, numbers, payments, raw
from tests.running import Running
from tests.waiting import patiently, wait_until

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[3]
MESSAGES, KILLS = 30_000, 12
SEED, PAYMENTS, RATE = 20, 6_000, 600.0


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_killed_again_and_again_a_bridge_neither_loses_nor_doubles(
    broker: EmbeddedBroker, nats_server: OwnNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, dice = f"k{uuid.uuid4().hex[:12]}", random.Random(7)
    monkeypatch.setenv("BRIDGED", name)
    monkeypatch.setenv("NATS_URL", nats_server.url)
    nats_server.add_stream(name, [name])
    publisher = threading.Thread(target=publish_slowly, args=(nats_server, name))
    publisher.start()
    stream = hr.Stream(name, schema="id string, card string, at timestamp", id="id", key="card", time="at")
    for kill in range(KILLS):
        before, bridge = copied(broker, name), started(broker, tmp_path / f"{kill}.log")
        wait_until(lambda: copied(broker, name) > before or not bridge.is_alive(), 60, "messages to come")  # noqa: B023
        time.sleep(dice.uniform(0, 0.3))  # a random moment, not a condition
        os.kill(bridge.pid, signal.SIGKILL)
        assert bridge.wait(patiently(20))
    bridge = started(broker, tmp_path / "last.log")
    publisher.join()
    wait_until(lambda: copied(broker, name) >= MESSAGES, 120, "all messages", (tmp_path / "last.log").read_text)
    bridge.stop(grace_s=patiently(20))
    found = raw(broker, stream)
    assert numbers(found) == list(range(1, MESSAGES + 1))
    assert in_order(found)


def publish_slowly(server: OwnNats, name: str) -> None:
    """Some every while, so that a bridge is killed with messages on the way."""
    for first in range(0, MESSAGES, 500):
        server.publish(name, payments(first, first + 500))
        time.sleep(0.3)


def copied(broker: EmbeddedBroker, topic: str) -> int:
    return sum(OffsetClient(broker.address).end_offset_list(topic))


def started(broker: EmbeddedBroker, log: Path) -> ChildProcess:
    command = [
        sys.executable,
        "-m",
        "headrace",
        "run",
        str(HERE / "kills_app.py"),
        "bridge",
        "--broker",
        broker.address,
    ]
    child = ChildProcess(command, folder=ROOT, output=log)
    child.start()
    return child


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_the_fraud_examples_payments_through_nats_give_the_same_numbers_as_straight_into_kafka(
    nats_server: OwnNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", nats_server.url)
    nats_server.add_stream("PAYMENTS", ["payments", "other"])
    with Running(HERE / "twice_app.py", tmp_path, "--lake", "off") as running:
        running.wait_until_ready()
        timeline = Timeline(SEED, time.time_ns() // 1000 - int(PAYMENTS / RATE * 1e6), RATE)
        events = [timeline.event(number) for number in range(PAYMENTS)]
        fates = Counter(event.fate for event in events)
        for first in range(0, PAYMENTS, 500):
            nats_server.publish("payments", [event.value for event in events[first : first + 500]])
            nats_server.publish("other", [b"not ours"])
            with Producer(running.broker) as producer:
                for event in events[first : first + 500]:
                    producer.send("straight", event.value, key=event.key)
            if first in (1000, 3000):
                running.kill("bridge")
        told = {"in": PAYMENTS, "late": fates[Fate.LATE], "dead": fates[Fate.DEAD]}
        told["clean"] = fates[Fate.CLEAN] + fates[Fate.DUPLICATE]
        for stream in ("straight", "bridged"):
            wait_until(lambda: told.items() <= running.events(stream).items(), 120, f"{told}", running.said)  # noqa: B023
        cards = sorted({json.loads(event.value)["card"] for event in events if event.fate is Fate.CLEAN})
        for view in ("Straight", "Bridged"):
            wait_until(lambda: counted(running, view, cards) == fates[Fate.CLEAN], 60, view, running.said)  # noqa: B023
        found = rows(running, "Bridged", cards)
        straight = rows(running, "Straight", cards)
        assert rounded(found) == rounded(straight)
        assert len(found) == len(cards) > 1000


def rounded(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Sums of doubles depend on their order, which batches choose."""
    return {card: {name: _rounded(value) for name, value in values.items()} for card, values in found.items()}


def _rounded(value: Any) -> Any:
    return float(f"{value:.12g}") if isinstance(value, float) else value


def counted(running: Running, view: str, cards: list[str]) -> int:
    return sum(values["payments_7d"] for values in rows(running, view, cards).values())


def rows(running: Running, view: str, cards: list[str]) -> dict[str, dict[str, Any]]:
    """Every feature of every card."""
    found = [row for first in range(0, len(cards), 100) for row in running.features(view, cards[first : first + 100])]
    return {row["card"]: row["values"] for row in found}
