"""`headrace up` with a stream derived from a derived one: a view equals brute force, and failed rows are reported."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.kafka.producer.producer import Producer
from tests.e2e.derived_load import CARDS, by_card, instalments, payments, raising, send
from tests.running import Running
from tests.waiting import patiently, wait_until

APP = Path(__file__).with_name("derived_app.py")


def headrace(*words: str) -> Any:
    """What a command prints, as JSON."""
    command = [sys.executable, "-m", "headrace", *words, "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patiently(120))
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def values(running: Running) -> dict[str, dict[str, Any]]:
    return {row["card"]: row["values"] for row in running.features("Instalments", CARDS)}


def deriving(running: Running) -> set[str]:
    """The streams whose queries run, and in real time."""
    said = [labels for (name, labels), value in running.metrics().items() if name == "headrace_query_running" and value]
    queries = [re.search('query="([^"]+)[.]derive"', labels) for labels in said if 'lane="real-time"' in labels]
    return {query[1] for query in queries if query}


def all_counted(told: Mapping[str, float], events: list[dict[str, Any]]) -> bool:
    """Whether the gate has counted every event; it reports at each checkpoint, which may rewrite some of them."""
    exact = (told["dead"], told["late"], told["dropped"]) == (len(raising(events)), 0, 0)
    return exact and told["clean"] >= len(instalments(events))


@pytest.mark.timeout(600)
def test_a_view_of_a_stream_derived_from_a_derived_one_says_what_loops_say(tmp_path: Path) -> None:
    events = list(payments(400, seed=1))
    with Running(APP, tmp_path / "state", "--lake", "off", "--checkpoint", "10s") as running:
        running.wait_until_ready()
        with Producer(running.broker) as producer:
            send(producer, events, random.Random(2))
        wait_until(lambda: values(running) == by_card(events), 120, "every value to be right", running.said)
        wait_until(lambda: deriving(running) == {"abroad", "instalments"}, 60, "both to be derived", running.said)
        wait_until(lambda: all_counted(running.events("instalments"), events), 60, "all to be counted", running.said)
        (reason,) = headrace("dead", str(APP), "ls", "instalments", "--broker", running.broker)
        letters = headrace("dead", str(APP), "show", "instalments", "--broker", running.broker)
    assert (reason["reason"], reason["open"]) == ("raised", len(raising(events)))
    assert sorted(json.loads(letter["value"])["id"] for letter in letters) == sorted(raising(events))
    assert all("[DIVIDE_BY_ZERO]" in letter["reason"] for letter in letters)
