"""A part that starts without a broker does not end: it reports that, waits, and still stops at once."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headrace.declare.app import App, load_app
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka import compacted_topic, topics
from headrace.kafka.client import startup_retries
from headrace.kafka.client.client import fetch_metadata
from headrace.kafka.offsets import OffsetClient
from headrace.runtime.part_runner import NAMED_PART_RUNNERS, PART_RUNNERS
from headrace.runtime.settings import Settings
from tests.runtime.test_settings import settings
from tests.waiting import patiently, wait_until

LIMIT_S = 60.0
APP = """
import headrace as hr

taps = hr.Stream("taps", schema="id string, at timestamp", id="id", key="id", time="at")
told = hr.Stream("told", schema="id string, at timestamp", id="id", key="id", time="at",
                 from_=hr.Nats("nats://127.0.0.1:1", stream="TOLD"))


@hr.features(taps, by="id")
class ById:
    n = hr.count(windows="1h")


copies = hr.Sink("copies", of=taps, to=hr.Kafka("copies"))
says = hr.Stream("says", schema="id string, v boolean, at timestamp", id="id", key="id", time="at")
score = hr.Model("score", on=taps, features=[ById], train=lambda frame: frame, retrain=hr.Retrain(every="1d"),
                 labels=hr.Labels(says, value="v", within="1h"))
"""
PARTS = ("lake", "evaluate", "sink", "bridge", "watch", "retrain")


@pytest.fixture
def place(tmp_path: Path) -> Settings:
    broker = f"{HOST}:{free_port()}"
    return replace(settings(), broker=broker, state=tmp_path, lake=tmp_path / "lake", http=f"{HOST}:{free_port()}")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that wait for an answer as long as a test does."""
    for module in (compacted_topic, topics):
        monkeypatch.setattr(module, "REQUEST_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(OffsetClient.__init__, "__defaults__", (1.0,))
    monkeypatch.setattr(fetch_metadata, "__defaults__", (1.0,))
    monkeypatch.setattr(startup_retries, "RETRY_SECONDS", 0.1)


def run_of(part: str, file: str, app: App, place: Settings, stop: threading.Event) -> Callable[[], None]:
    if part in NAMED_PART_RUNNERS:
        return partial(NAMED_PART_RUNNERS[part], file, app, place, stop)
    return partial(PART_RUNNERS[part], app, place, stop)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("part", PARTS)
def test_a_part_waits_for_a_broker_that_is_away(
    part: str, place: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "app.py"
    file.write_text(APP)
    stop, failed = threading.Event(), list[BaseException]()
    run = run_of(part, str(file), load_app(str(file)), place, stop)

    def guarded() -> None:
        try:
            run()
        except BaseException as failure:  # noqa: BLE001  # in a thread: the test checks it
            failed.append(failure)

    thread = threading.Thread(target=guarded)
    caplog.set_level(logging.WARNING)
    thread.start()
    try:
        wait_until(lambda: failed or f"No Kafka broker answers at '{place.broker}'" in caplog.text, LIMIT_S, "its word")
        assert not failed
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(patiently(LIMIT_S))
    assert not failed
    assert not thread.is_alive()
