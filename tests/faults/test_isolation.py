"""kill -9 in a loop of every part that serving does not need: no read fails, and `headrace status` stays right.

HEADRACE_ISOLATION_SECONDS sets for how long; the default is a minute, and each part is killed once at least.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.kafka.compacted_topic import ensure_compacted_topic
from tests.faults.load import CARDS, Load
from tests.running import Running
from tests.waiting import wait_until

APP = Path(__file__).with_name("isolation_app.py")
SECONDS = float(os.environ.get("HEADRACE_ISOLATION_SECONDS", "60"))
KILLED = ("lake", "evaluate", "operate", "sink", "check", "watch")
SETTLE_LIMIT_S = 300.0
SIGKILL = "killed by signal 9 (SIGKILL)"


class Status(NamedTuple):
    """The output of `headrace status --json`, and its exit code."""

    code: int
    said: dict[str, Any]

    def part(self, name: str) -> dict[str, Any]:
        return next(one for one in self.said["parts"] if one["part"] == name)


def status_of(running: Running) -> Status:
    place = ["--state", str(running.state), "--broker", running.broker, "--http", f"127.0.0.1:{running.http_port}"]
    command = [sys.executable, "-m", "headrace", "status", str(APP), "--json", *place]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 1, 2), done.stderr
    return Status(done.returncode, json.loads(done.stdout))


class Reader(threading.Thread):
    """Asks for every card over and over; `failed` has what went wrong, `went_back` counts that became smaller.

    `ages_s` has of each read how long ago the first event was sent that it does not count.
    """

    def __init__(self, running: Running, load: Load) -> None:
        super().__init__(name="reader", daemon=True)
        self.reads, self.failed, self.went_back = 0, list[str](), list[str]()
        self.ages_s = list[float]()
        self._running, self._load, self._enough = running, load, threading.Event()
        self._seen = dict.fromkeys(CARDS, 0)

    def run(self) -> None:
        while not self._enough.wait(0.01):
            try:
                rows = self._running.features("ByCard", CARDS)
            except (OSError, HTTPException, AssertionError, ValueError) as failure:
                self.failed.append(f"{type(failure).__name__}: {failure}")
                continue
            self.reads += 1
            for row in rows:
                count = row["values"]["taps_7d"]
                if count < self._seen[row["card"]]:
                    self.went_back.append(f"{row['card']}: {self._seen[row['card']]} to {count}")
                self._seen[row["card"]] = count
            self.ages_s.append(self._age_s())

    def _age_s(self) -> float:
        counted, now_us = self.total(), time.time_ns() / 1000
        return (now_us - self._load.events[counted]["at"]) / 1e6 if counted < len(self._load.events) else 0.0

    def total(self) -> int:
        return sum(self._seen.values())

    def finish(self) -> None:
        self._enough.set()
        self.join()


@pytest.mark.faults
@pytest.mark.timeout(int(SECONDS) + 1500)
def test_parts_are_killed_in_a_loop_and_no_read_fails(tmp_path: Path) -> None:
    with Running(APP, tmp_path / "state", "--lake-every", "5s", "--checkpoint", "10s") as running:
        running.wait_until_ready()
        ensure_compacted_topic(running.broker, "taps.copies")
        until(lambda: status_of(running).code == 0, "everything to run", running)
        load = Load(running.broker, seed=18)
        reader = Reader(running, load)
        load.start()
        reader.start()
        kills = kill_in_a_loop(running)
        load.finish()
        until(lambda: reader.total() == len(load.events), "every event to be counted", running)
        until(lambda: status_of(running).code == 0, "everything to run again", running)
        reader.finish()
        last = status_of(running)
        assert {part: last.part(part)["restarts"] for part in kills} == kills, running.said()
        assert all(last.part(part)["restarts"] == 0 for part in ("serve", "stream", "broker"))
        half, most, last_s = (sorted(reader.ages_s)[int(len(reader.ages_s) * share)] for share in (0.5, 0.99, 0.9999))
        ages = f"ages P50 {half * 1000:.0f} ms, P99 {most * 1000:.0f} ms, P99.99 {last_s * 1000:.0f} ms"
        sys.stdout.write(f"\n{sum(kills.values())} kills, {reader.reads} reads, {len(reader.failed)} failed, {ages}\n")
        assert reader.failed == []
        assert reader.went_back == []
        assert running.stop() == 0, running.said()
    assert status_of(running).code == 2


def kill_in_a_loop(running: Running) -> dict[str, int]:
    """Kill one part after the other; `headrace status` names each. Returns how often each was killed."""
    kills = dict.fromkeys(KILLED, 0)
    deadline = time.monotonic() + SECONDS
    for part in cycle(KILLED):
        if time.monotonic() > deadline and all(kills.values()):
            return kills
        running.kill(part)
        kills[part] += 1
        until(lambda part=part: status_of(running).part(part)["restarts"] >= kills[part], f"{part}'s restart", running)
        status = status_of(running)
        assert all(status.part(one)["restarts"] >= count for one, count in kills.items())
        if status.part(part)["restarts"] == kills[part]:
            assert status.part(part)["last_error"] == SIGKILL
        down = {one["what"] for one in status.said["down"]}
        assert status.code == (1 if down else 0)
        assert {f"part {one['part']}" for one in status.said["parts"] if one["down_since"]} <= down
        assert not down & {"part serve", "part stream", "part broker"}
    raise AssertionError


def until(condition: Callable[[], object], what: str, running: Running) -> None:
    wait_until(condition, SETTLE_LIMIT_S, what, running.said)
