"""Plays an app of the zoo through a real `headrace up`: `python -m tests.apps.play "smart meters"` plays one by hand."""

import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis as redis_client
from deltalake import DeltaTable

from headrace.declare.app import App, load_app
from headrace.declare.derivation import Derived
from headrace.log.topics import APPEND_TIME, Topic
from tests.apps.commands import every_command, run
from tests.apps.factors import Row
from tests.apps.oracle import Oracle, clean_events, records_of
from tests.apps.places import Places, places_of
from tests.apps.sending import Sender
from tests.apps.text import NETWORK, SORTS, TABLE, app_text
from tests.apps.traffic import Traffic
from tests.log.kafka import create_topic
from tests.running import Running
from tests.score.networks import weighing
from tests.sink.reading import in_iceberg
from tests.waiting import wait_until

SETTLE_LIMIT_S = 420
BURST = 120
NOT_PARTS = ("broker", "the broker")
ENDED = re.compile(r"headrace: (.+?) (?:ended|did not start)")
# Every part is killed but the one whose fall is the fall of all: the broker is killed last.
KILLED = (
    "serve",
    "stream",
    "operate",
    "lake",
    "sink",
    "apply",
    "score",
    "bridge",
    "outbox",
    "connect",
    "watch",
    "check",
)


@dataclass
class Outcome:
    """What came of playing an app: the steps that went well, with their seconds, and what did not."""

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
            create_topic(self.running.broker, Topic("zoo.rows", "zoo.rows", 2, APPEND_TIME))

    def send(self, count: int = BURST) -> None:
        Sender(self.app, self.traffic, self.places, self.running).send(count)

    def settle(self) -> None:
        """Wait until everything is as it must be."""
        self._until(lambda: self.oracle.complaints(), "what is served")
        self._until(lambda: list(self.sunk()), "the sinks")
        if self.row["lake"] != "off":
            self._until(lambda: list(self.oracle.landed()), "the lake")

    def _until(self, complaints: Callable[[], list[str]], what: str) -> None:
        last: list[str] = []

        def is_right() -> bool:
            last[:] = complaints()
            return not last or self.running.ended()

        wait_until(is_right, SETTLE_LIMIT_S, what, lambda: "\n".join(last[:12]) + "\n" + self.running.said()[-6000:])
        assert not self.running.ended(), self.running.said()

    def sunk(self) -> Iterator[str]:
        """What a sink has not brought to its target."""
        for sink in self.app.sinks:
            stream = sink.of
            wanted = {event[stream.id] for event in clean_events(self.running.broker, stream)}  # type: ignore[union-attr]
            found = self._in_target(type(sink.to).__name__, stream.id)  # type: ignore[union-attr]
            if found != wanted:
                yield f"{sink.name}: {len(wanted - found)} rows missing, {len(found - wanted)} too many"

    def _in_target(self, target: str, own_id: str) -> set[str]:
        places, folder = self.places, self.places.folder
        match target:
            case "Postgres":
                return {row[0] for row in _asked(lambda: places.postgres.ask(f'SELECT "{own_id}" FROM zoo_rows'))}  # type: ignore[union-attr]
            case "Redis":
                client = redis_client.Redis.from_url(places.redis.url, decode_responses=True)  # type: ignore[union-attr]
                with client:
                    return {client.hget(key, own_id) for key in client.scan_iter("zoo:*", count=1000)}
            case "ClickHouse":
                asked = f"SELECT `{own_id}` AS id FROM zoo_rows FINAL"
                return {row["id"] for row in _asked(lambda: places.clickhouse.ask(asked))}  # type: ignore[union-attr]
            case "Delta":
                sunk = folder / "sunk-delta"
                table = DeltaTable(sunk).to_pyarrow_table([own_id]) if DeltaTable.is_deltatable(str(sunk)) else None
                return set() if table is None else set(table[own_id].to_pylist())
            case "Iceberg":
                return {row[own_id] for row in iceberg_rows(folder / "sunk-iceberg", own_id)}
            case "Kafka":
                import json

                return {json.loads(one.value or b"")[own_id] for one in records_of(self.running.broker, "zoo.rows")}
        return {row[own_id] for body in places.hook.bodies for row in body.get("rows", ())}  # type: ignore[union-attr]

    def ask_everything(self) -> None:
        for asked in every_command(self.row, self.app, self.running, self.places.folder):
            if complaint := run(asked):
                self.outcome.complaints.append(complaint)

    def stop(self) -> None:
        assert self.running.stop() == 0, self.running.said()

    def kill_each(self) -> None:
        """kill -9 of each part, one after the other; each comes back, and nothing else falls."""
        for part in (*KILLED, "broker"):
            if self.running.pid_of(part) is None:
                continue
            before = self.running.kill(part)
            self.killed[part] += 1
            wait_until(
                lambda part=part, before=before: self.running.pid_of(part) not in (None, before) or self.running.ended(),  # type: ignore[misc]
                180, f"{part} to be started again", self.running.said,
            )  # fmt: skip
            assert not self.running.ended(), self.running.said()
        self.running.wait_until_ready()

    def look_back(self) -> None:
        """Nothing ended that was not killed, and no log has a traceback."""
        ended = Counter(ENDED.findall(self.running.output.read_text(errors="replace")))
        for part, count in ended.items():
            asked = self.killed[part.removeprefix("the ")]
            if count > asked:
                self.outcome.complaints.append(f"{part} ended {count} times, and was killed {asked} times")
        for log in sorted((self.running.state / "logs").glob("*.log*")):
            text = log.read_text(errors="replace")
            if "Traceback" in text:
                at = text.index("Traceback")
                self.outcome.complaints.append(f"{log.name} has a traceback: {text[at : at + 3000]}")


def _asked(question: Callable[[], list[object]]) -> list[object]:
    """What a target answers; nothing while its table is not there."""
    try:
        return question()
    except Exception as problem:  # noqa: BLE001 - each client has its own word for it
        if "exist" in str(problem):
            return []
        raise


def iceberg_rows(folder: Path, own_id: str) -> list[dict[str, str]]:
    import tests.sink.reading as reading

    before, reading.COLUMNS = reading.COLUMNS, (own_id,)
    try:
        return in_iceberg(folder, "zoo_rows")
    finally:
        reading.COLUMNS = before


def play(row: Row, folder: Path, is_whole: bool) -> Outcome:
    """Play an app: up, traffic, the oracle and a restart; the whole of it has every command, a change and kills."""
    outcome = Outcome(row)
    with places_of(row, folder) as places:
        one = Play(row, places, outcome)
        try:
            _play(one, is_whole)
        finally:
            one.running.stop()
            one.look_back()
    return outcome


def _play(one: Play, is_whole: bool) -> None:
    with one.step("up"):
        one.start()
    with one.step("traffic"):
        one.send()
        one.settle()
    if is_whole:
        with one.step("commands"):
            one.ask_everything()
        with one.step("kills"):
            one.kill_each()
            one.send(BURST // 2)
            one.settle()
    with one.step("restart"):
        one.stop()
        one.start()
        one.send(BURST // 3)
        one.settle()
    if is_whole:
        with one.step("change"):
            one.stop()
            one.write(is_changed=True)
            one.start()
            one.send(BURST // 3)
            one.settle()


def main(words: list[str]) -> int:
    from tests.apps.pairs import read_rows

    wanted, is_whole = [word for word in words if word != "--whole"], "--whole" in words
    failed = 0
    for row in read_rows():
        if wanted and row.domain not in wanted:
            continue
        folder = Path(tempfile.mkdtemp(prefix="zoo-", dir="/tmp"))
        began, outcome = time.monotonic(), Outcome(row)
        try:
            outcome = play(row, folder, is_whole)
        except BaseException as problem:  # noqa: BLE001 - the next one is played whatever came of this one
            outcome.complaints.append(f"{type(problem).__name__}: {str(problem)[:6000]}")
            if isinstance(problem, KeyboardInterrupt):
                raise
        steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in outcome.steps.items())
        print(
            f"=== {row.domain}: {'well' if outcome.is_well else 'NOT WELL'} after {time.monotonic() - began:.0f} s ({steps}) {folder}",
            flush=True,
        )
        for complaint in outcome.complaints:
            print(complaint, flush=True)
        failed += not outcome.is_well
        if outcome.is_well:
            shutil.rmtree(folder, ignore_errors=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
