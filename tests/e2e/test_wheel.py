"""The wheel, installed outside the project, runs a user's own app."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.kafka.producer.producer import Producer
from tests.running import Running
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
APP = """
import headrace as hr

clicks = hr.Stream("clicks", schema="id string, user string, at timestamp", id="id", key="user", time="at")


@hr.features(clicks, by="user")
class Clicks:
    clicks = hr.count(windows="1h")
"""


@pytest.mark.timeout(600)
def test_a_user_with_the_wheel_alone_gets_a_fresh_feature_over_http(tmp_path: Path) -> None:
    python = installed(tmp_path)
    app = tmp_path / "app.py"
    app.write_text(APP)
    with Running(app, tmp_path / "state", python=python) as running:
        running.wait_until_ready()
        with Producer(running.broker) as producer:
            producer.send("clicks", {"id": "1", "user": "u", "at": time.time_ns() // 1_000_000}, key="u")
        wait_until(lambda: clicks(running) == 1, 30, "the click to count", running.said)
        assert running.stop() == 0, running.said()


def clicks(running: Running) -> int:
    (row,) = running.features("Clicks", ["u"])
    return int(row["values"]["clicks_1h"])


def installed(folder: Path) -> str:
    """A Python with the wheel and nothing of the project's folder; its packages are the locked ones."""
    run(folder, sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("headrace-*.whl")
    run(folder, sys.executable, "-m", "venv", str(folder / "venv"))
    python, uv = str(folder / "venv" / "bin" / "python"), str(Path(sys.executable).with_name("uv"))
    run(folder, uv, "pip", "sync", "--require-hashes", "--python", python, str(ROOT / "requirements.lock"))
    run(folder, uv, "pip", "install", "--no-deps", "--python", python, str(wheel))
    run(folder, uv, "pip", "check", "--python", python)
    assert str(folder) in run(folder, python, "-c", "import headrace; print(headrace.__file__)")
    return python


def run(folder: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
