"""If Spark's Java process dies, the process that needs it ends within seconds, so that it is restarted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from tests.running import JAVA, _command, descendants
from tests.waiting import wait_until

LIMIT_S = 240
SECONDS_TO_END = 60  # seconds on a machine that is not busy
APP = """
import headrace as hr

taps = hr.Stream("taps", schema="id string, card string, n bigint, at timestamp", id="id", key="card", time="at")
counts = hr.windowed("counts", taps, by="card", over=hr.Tumbling("5s"), n=hr.count()).out
"""
JUDGED = """

@hr.features(taps, by="card")
class ByCard:
    taps = hr.count(windows="1h")


told = hr.Stream("told", schema="id string, bad boolean, at timestamp", id="id", key="id", time="at")
labels = hr.Labels(told, value="bad", within="1h")
guess = hr.Model("guess", on=taps, features=[ByCard], file="guess.onnx", labels=labels)
"""


@contextmanager
def part(name: str, broker: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`headrace run APP PART`, and its log; killed at the end with all that it started."""
    app, log = folder / "app.py", folder / "part.log"
    app.write_text(app_text(name))
    state = ["--state", str(folder / "state"), "--lake", str(folder / "lake"), "--lake-every", "1s"]
    command = [sys.executable, "-m", "headrace", "run", str(app), name, "--broker", broker, *state]
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        yield running, log
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def app_text(name: str) -> str:
    """An app that has the part: evaluation is there for a model with labels."""
    return APP + JUDGED if name == "evaluate" else APP


def java_of(pid: int) -> int | None:
    return next((one for one in descendants(pid) if JAVA["spark"] in _command(one)), None)


def has_begun(name: str, broker: str, folder: Path) -> bool:
    """Whether a part is seen at work: it reports, or has landed what was sent."""
    if name == "lake":
        return any((folder / "lake" / "bronze").rglob("*.parquet"))
    offsets = OffsetClient(broker)
    return sum(offsets.topic_end_offsets([PROGRESS_TOPIC]).values()) > 0


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["stream", "operate", "lake", "evaluate"])
def test_a_part_whose_java_is_killed_ends_with_one_sentence(name: str, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "log", port=0) as broker, part(name, broker.address, tmp_path) as (running, log):
        if name in {"lake", "evaluate"}:
            from headrace.declare.app import load_app
            from headrace.kafka.topics import ensure_topics

            (tmp_path / "app.py").write_text(app_text(name))
            app = load_app(str(tmp_path / "app.py"))
            ensure_topics(broker.address, app.streams, (), app.models)
            with Producer(broker.address) as producer:
                producer.send("taps", b"{}", key="c1")
        wait_until(
            lambda: has_begun(name, broker.address, tmp_path) or running.poll() is not None,
            LIMIT_S,
            f"{name} to begin",
            lambda: log.read_text()[-3000:],
        )
        java = java_of(running.pid)
        assert java is not None, log.read_text()[-3000:]
        os.kill(java, signal.SIGKILL)
        killed_s = time.monotonic()
        wait_until(
            lambda: running.poll() is not None, SECONDS_TO_END, f"{name} to end", lambda: log.read_text()[-3000:]
        )
        assert running.returncode != 0
        assert "Spark's Java process has ended" in log.read_text()[-600:], log.read_text()[-3000:]
        assert time.monotonic() - killed_s < SECONDS_TO_END
