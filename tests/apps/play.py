"""Runs an app of the zoo through a real `headrace up`; `python -m tests.apps.play "smart meters"` runs one."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from headrace.declare.app import App, load_app
from headrace.kafka.topics import LOG_APPEND_TIME, TopicSpec
from tests.apps.commands import Asked, answer_of, complaint_of, every_command
from tests.apps.factors import Row
from tests.apps.oracle import Oracle
from tests.apps.page import WRITES_PAGE, keep_outcome
from tests.apps.pairs import read_rows
from tests.apps.places import Places, places_of
from tests.apps.sending import Sender
from tests.apps.targets import not_sunk
from tests.apps.text import NETWORK, SORTS, TABLE, app_text
from tests.apps.traffic import Traffic
from tests.kafka.kafka_tools import create_topic
from tests.models.networks import weighing
from tests.running import READY_LIMIT_S, Running
from tests.waiting import wait_until

SETTLE_LIMIT_S = 120
PAUSE_S = 2.0  # between two looks: each reads whole topics, and the app has no more than two cores
BURST = 120
REBUILD = re.compile(r"--rebuild ([^\s,]+)")
DOWN = re.compile(r"headrace: (.+?) is down \(restart")
# Of these each app loses some at one moment, another app others: over all apps every part is killed many times.
KILLED = (
    "serve",
    "stream",
    "operate",
    "lake",
    "evaluate",
    "sink",
    "apply",
    "score",
    "bridge",
    "outbox",
    "connect",
    "watch",
    "check",
    "broker",
)
AT_ONCE = 3


@dataclass
class Outcome:
    """The outcome of an app's run: the steps that succeeded, with their seconds, and the failures."""

    row: Row
    steps: dict[str, float] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        return not self.complaints


class Play:
    """An app of the zoo while it runs."""

    def __init__(self, row: Row, places: Places, outcome: Outcome) -> None:
        self.row, self.places, self.outcome = row, places, outcome
        self.file = places.folder / f"{re.sub('[^a-z]', '_', row.domain)}_app.py"
        (places.folder / TABLE).write_text("sort_name,factor\n" + "".join(f"{one},1.5\n" for one in SORTS[:3]))
        (places.folder / NETWORK).write_bytes(weighing(2))
        self.write()
        self.running = Running(self.file, places.folder / "state", "--checkpoint", "10s", *places.flags)
        self.traffic = Traffic(row, seed=len(row.domain))
        self.killed: Counter[str] = Counter()
        self._app: App | None = None

    def write(self, is_changed: bool = False) -> None:
        self.file.write_text(app_text(self.row, str(self.places.folder), is_changed))
        self._app = None

    @property
    def app(self) -> App:
        """What the file declares; of a registry's schemas, once that answers."""
        if self._app is None:
            self._app = load_app(str(self.file))
        return self._app

    @property
    def oracle(self) -> Oracle:
        return Oracle(self.app, self.traffic, self.running, self.places.folder)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.outcome.steps[name] = time.monotonic() - began

    def start(self) -> None:
        self.running.start()
        self.running.wait_until_ready()
        if self.row["second_sink"] == "kafka":
            create_topic(self.running.broker, TopicSpec("zoo.rows", "zoo.rows", 2, LOG_APPEND_TIME))

    def start_changed(self) -> None:
        """Start with another declaration: what needs a rebuild is refused with the flags that do it, and is rebuilt."""
        self.write(is_changed=True)
        self.running.start()
        wait_until(lambda: self.running.ready() or self.running.ended(), READY_LIMIT_S, "an answer", self.running.said)
        if not self.running.ended():
            return
        said = self.running.output.read_text()
        refusal = said[said.rfind("\nError: ") :]
        rebuilt = dict.fromkeys(REBUILD.findall(refusal))
        assert rebuilt, said
        self.running.flags += tuple(chain(*(("--rebuild", stream) for stream in rebuilt)))
        self.running.start()
        self.running.wait_until_ready()

    def send(self, count: int = BURST) -> None:
        Sender(self.app, self.traffic, self.places, self.running).send(count)

    def complaints(self) -> list[str]:
        return self.oracle.complaints()

    def settle(self) -> None:
        """Wait until everything is as it must be."""
        self._until(self.complaints, "what is served")
        self._until(lambda: list(not_sunk(self.app, self.places, self.running.broker)), "the sinks")
        if self.row["lake"] != "off":
            self._until(lambda: list(self.oracle.landed()), "the lake")

    def _until(self, complaints: Callable[[], list[str]], what: str) -> None:
        last, looked = ["not looked yet"], [0.0]

        def is_right() -> bool:
            if time.monotonic() - looked[0] > PAUSE_S:
                last[:], looked[0] = complaints(), time.monotonic()
                (self.places.folder / "complaints.txt").write_text("\n".join(last))
            return not last or self.running.ended()

        wait_until(is_right, SETTLE_LIMIT_S, what, lambda: "\n".join(last[:12]) + "\n" + self.running.said()[-6000:])
        assert not self.running.ended(), self.running.said()

    def ask_everything(self) -> None:
        for asked in every_command(self.row, self.app, self.running, self.places.folder):
            if complaint := complaint_of(asked):
                self.outcome.complaints.append(complaint)

    def stop(self) -> None:
        assert self.running.stop() == 0, self.running.said()

    def kill_some(self) -> None:
        """kill -9 of some parts at one moment; each comes back, and nothing else falls."""
        present = [part for part in KILLED if self.running.pid_of(part) is not None]
        first = AT_ONCE * [row.domain for row in read_rows()].index(self.row.domain)
        chosen = {present[(first + number) % len(present)] for number in range(AT_ONCE)}
        before = {part: self.running.kill(part) for part in sorted(chosen)}
        for part, pid in before.items():
            self.killed[part] += 1
            wait_until(partial(self._is_back, part, pid), 180, f"{part} to be started again", self.running.said)
            assert not self.running.ended(), self.running.said()
        self.running.wait_until_ready()

    def require_steady(self) -> None:
        """Require that `headrace status` reports everything as running, and nothing as restarted."""
        address = ("--broker", self.running.broker, "--http", f"127.0.0.1:{self.running.http_port}")
        asked = Asked(("status", str(self.file), "--state", str(self.running.state), *address, "--json"))
        wait_until(lambda: not complaint_of(asked), SETTLE_LIMIT_S, "all to run", lambda: complaint_of(asked))
        told = json.loads(answer_of(asked).stdout)
        for one in (*told["parts"], *told["queries"]):
            if one["restarts"]:
                name = one.get("part") or one["query"]
                self.outcome.complaints.append(f"{name} was restarted {one['restarts']} times: {one['last_error']}")

    def _is_back(self, part: str, before: int) -> bool:
        return self.running.pid_of(part) not in (None, before) or self.running.ended()

    def look_back(self) -> None:
        """Nothing ended that was not killed, and no log has a traceback."""
        ended = Counter(DOWN.findall(self.running.output.read_text(errors="replace")))
        for part, count in ended.items():
            asked = self.killed[part.removeprefix("the ")]
            if count > asked:
                self.outcome.complaints.append(f"{part} was down {count} times, and was killed {asked} times")
        for log in sorted((self.running.state / "logs").glob("*.log*")):
            text = log.read_text(errors="replace")
            if "Traceback" in text:
                at = text.index("Traceback")
                self.outcome.complaints.append(f"{log.name} has a traceback: {text[at : at + 3000]}")


def play(row: Row, folder: Path, is_whole: bool, outcome: Outcome) -> None:
    """Play an app: up, traffic, the oracle, a restart; the whole has commands, kills and a changed declaration."""
    with places_of(row, folder) as places:
        one = Play(row, places, outcome)
        try:
            _play(one, is_whole)
        finally:
            one.running.stop()
            one.look_back()


def _play(one: Play, is_whole: bool) -> None:
    with one.step("up"):
        one.start()
    with one.step("traffic"):
        one.send()
        one.settle()
        one.require_steady()
    if is_whole:
        with one.step("commands"):
            one.ask_everything()
        with one.step("kills"):
            one.kill_some()
            one.send(BURST // 2)
            one.settle()
    with one.step("change" if is_whole else "restart"):
        one.stop()
        one.start_changed() if is_whole else one.start()
        one.send(BURST // 3)
        one.settle()


def main(words: list[str]) -> int:
    """Play the apps that are named, or all; how many are not well."""
    wanted, is_whole = [word for word in words if word != "--whole"], "--whole" in words
    return sum(not _told(row, is_whole) for row in read_rows() if not wanted or row.domain in wanted)


def _told(row: Row, is_whole: bool) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="zoo-"))
    began, outcome = time.monotonic(), Outcome(row)
    try:
        play(row, folder, is_whole, outcome)
    except (Exception, pytest.fail.Exception) as problem:  # noqa: BLE001 - the next one is played whatever came of it
        outcome.complaints.append(f"{type(problem).__name__}: {problem}")
        (folder / "failure.txt").write_text(traceback.format_exc())
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in outcome.steps.items())
    well = "well" if outcome.is_well else f"NOT WELL, see {folder}"
    sys.stdout.write(f"=== {row.domain}: {well}, after {time.monotonic() - began:.0f} s ({steps})\n")
    sys.stdout.writelines(f"{complaint[:4000]}\n" for complaint in outcome.complaints)
    sys.stdout.flush()
    if os.environ.get(WRITES_PAGE):
        keep_outcome(row.domain, outcome.steps, outcome.complaints)
    if outcome.is_well:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome.is_well


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops what was started
    sys.exit(main(sys.argv[1:]))
