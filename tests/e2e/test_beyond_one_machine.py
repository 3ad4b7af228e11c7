"""The same app on an existing Spark cluster, broker and Redis returns the same values."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headrace.declare.app import load_app
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.embedded_servers.ports import HOST, free_port, is_listening
from headrace.kafka.producer.producer import Producer
from tests.oracle import brute
from tests.running import Running
from tests.waiting import patiently, wait_until

APP = Path(__file__).with_name("minimal_app.py")
CARDS = [f"c{number}" for number in range(10)]
EVENTS = 2_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone Spark master and two workers."""
    spark_home = Path(pyspark.__file__).parent
    port = free_port()
    address = f"spark://{HOST}:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", HOST, "--cores", "6", "--memory", "1g"]
    commands = {
        "master": master,
        **{
            f"worker{n}": [*worker, "--work-dir", str(tmp_path / f"work{n}"), "--webui-port", "0", address]
            for n in (1, 2)
        },
    }
    environment = {**os.environ, "SPARK_HOME": str(spark_home), "SPARK_DAEMON_MEMORY": "256m"}
    children = []
    try:
        for name, command in commands.items():
            child = ChildProcess(
                [str(spark_home / "bin" / "spark-class"), *command], folder=tmp_path, output=tmp_path / name
            )
            child.start(environment)
            children.append(child)
            wait_until(lambda: is_listening(HOST, port), 60, "the Spark master")
        yield address
    finally:
        for child in reversed(children):
            child.stop(grace_s=patiently(20))


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_cluster_a_broker_and_redis_of_the_users_own_give_the_same_numbers(
    cluster: str, broker: EmbeddedBroker, redis_url: str, tmp_path: Path
) -> None:
    flags = ("--broker", broker.address, "--store", redis_url, "--spark", cluster, "--lake", "off")
    view = load_app(str(APP)).view("Taps")
    with Running(APP, tmp_path / "state", *flags) as running:
        running.wait_until_ready()
        sent = send(broker.address)
        at_us = max(event["at"] for event in sent)
        wait_until(lambda: wrong(running, view, sent, at_us) == [], 120, "the numbers", running.said)
        assert running.stop() == 0, running.said()


def send(broker: str) -> list[dict[str, Any]]:
    dice = random.Random(5)
    events = []
    with Producer(broker) as producer:
        for number in range(EVENTS):
            at_ms = time.time_ns() // 1_000_000 - dice.randint(0, 600_000)
            event = {"id": str(number), "card": dice.choice(CARDS), "amount": dice.randint(0, 99) / 4, "at": at_ms}
            for _ in range(1 + (number % 10 == 0)):
                producer.send("taps", event, key=event["card"])
            events.append({**event, "at": at_ms * 1000})
    return events


def wrong(running: Running, view: Any, events: list[dict[str, Any]], at_us: int) -> list[Any]:
    rows = running.features("Taps", CARDS, at_us // 1000)
    return [
        (card, name, row["values"][name], expected.value)
        for card, row in zip(CARDS, rows, strict=True)
        for name, expected in brute.features(view, events, (card,), at_us).items()
        if row["values"][name] != expected.value
    ]
