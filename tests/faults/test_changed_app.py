"""`headrace up` of an app that was changed, reverted or rebuilt: its rows equal brute force over its events."""

import json
import random
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.postgres import OwnPostgres
from headrace.declare.app import load_app
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.kafka.producer.producer import Producer
from tests.faults.test_operators import told
from tests.running import Running
from tests.waiting import wait_until

CARDS = [f"c{number}" for number in range(6)]
LIMIT_S = 120
APP = """
import headrace as hr

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at",
    late=hr.Late("10s"),
)
over = hr.Tumbling("{size}s")
spend = hr.windowed("spend", payments, by="card", over=over, idle="1s", n=hr.count(), total=hr.sum("amount")).out

@hr.features(spend, by="card")
class Spent:
    windows = hr.count(windows="1d")
    total = hr.sum("total", windows="1d")
"""
SINK = """
to = hr.Postgres("env:PG_URL", table="going_back")
warehouse = hr.Sink("payments to the warehouse", of=payments, to=to, delivery="exactly_once")
"""
MORE = """
counts = hr.windowed("counts", payments, by="card", over=hr.Tumbling("20s"), idle="1s", n=hr.count()).out
"""


class Payment(NamedTuple):
    """A payment as it was sent."""

    id: str
    card: str
    amount: float
    at_ms: int


class App:
    """An app that may be changed between two starts, and the payments it was sent."""

    def __init__(self, folder: Path) -> None:
        self.file, self.sent = folder / "app.py", list[Payment]()
        self.running = Running(self.file, folder / "state", "--lake", "off", "--checkpoint", "5s")
        self._flags, self._dice = self.running.flags, random.Random(1)

    def start(self, text: str, *flags: str) -> None:
        self.running.stop()
        self.file.write_text(text)
        self.running.flags = (*self._flags, *flags)
        self.running.start()

    def refused(self, text: str, *flags: str) -> str:
        """The error of an app that does not start."""
        self.start(text, *flags)
        wait_until(self.running.ended, LIMIT_S, "it to be refused", self.running.said)
        assert self.running.stop() == 1
        return self.running.output.read_text()

    def pay(self, count: int) -> list[Payment]:
        """So many payments, each now; some of them are sent twice."""
        paid = []
        with Producer(self.running.broker) as producer:
            for number in range(len(self.sent), len(self.sent) + count):
                at_ms = int(datetime.now(UTC).timestamp() * 1000)
                one = Payment(f"p{number}", self._dice.choice(CARDS), self._dice.randrange(400) / 4, at_ms)
                event = {"id": one.id, "card": one.card, "amount": one.amount, "at": one.at_ms}
                for _ in range(1 + (self._dice.random() < 0.1)):
                    producer.send("payments", event, key=one.card)
                paid.append(one)
        self.sent += paid
        return paid

    def wait_for(self, payments: Iterable[Payment], size: int, name: str = "spend") -> None:
        """Until the rows of a windowing are those of a loop over some payments."""
        wanted, stream = windows_of(payments, size), load_app(str(self.file)).stream(name)
        assert isinstance(stream, DerivedStream)

        def different() -> str:
            return f"{rows_of(self.running.broker, stream)}\n{wanted}\n{self.running.said()}"

        wait_until(lambda: rows_of(self.running.broker, stream) == wanted, LIMIT_S, f"rows of {name}", different)

    def spent(self) -> dict[str, tuple[int, float]]:
        """What is served of each card that has spent."""
        rows = [(row["card"], row["values"]) for row in self.running.features("Spent", CARDS)]
        return {card: (of["windows_1d"], of["total_1d"]) for card, of in rows if of["windows_1d"]}


def windows_of(payments: Iterable[Payment], size: int) -> dict[tuple[str, int], tuple[int, float]]:
    """How many payments of a card began in each window, and how much they are."""
    found: dict[tuple[str, int], tuple[int, float]] = {}
    for one in payments:
        of = one.card, one.at_ms // (size * 1000) * size
        count, total = found.get(of, (0, 0.0))
        found[of] = count + 1, total + one.amount
    return found


def spent_of(payments: Iterable[Payment], size: int) -> dict[str, tuple[int, float]]:
    """How many windows of a card have something, and how much."""
    found: dict[str, tuple[int, float]] = {}
    for (card, _), (_, total) in windows_of(payments, size).items():
        windows, before = found.get(card, (0, 0.0))
        found[card] = windows + 1, before + total
    return found


def rows_of(broker: str, stream: DerivedStream) -> dict[tuple[str, int], tuple[int, float]]:
    """The same of a stream's rows; of a windowing that only counts, as much as it knows."""
    rows = told(broker, stream).values()
    return {(row["card"], _seconds(row["window_start"])): (row["n"], row.get("total", 0.0)) for row in rows}


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())


def in_warehouse(postgres: OwnPostgres) -> list[tuple[Any, ...]]:
    return sorted(postgres.ask("SELECT id, card, amount FROM going_back"))


@pytest.fixture
def app(tmp_path: Path) -> Any:
    made = App(tmp_path)
    yield made
    made.running.stop()


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_sink_runs_with_the_rest_and_is_started_anew_when_it_is_killed(
    app: App, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    postgres.ask("DROP TABLE IF EXISTS going_back")
    app.start(APP.format(size=5) + SINK)
    app.running.wait_until_ready()
    app.pay(100)
    wait_until(lambda: _is_whole(app, postgres), LIMIT_S, "100 rows", app.running.said)
    killed = app.running.kill("sink")
    app.pay(100)
    wait_until(lambda: app.running.pid_of("sink") not in (None, killed), LIMIT_S, "another sink", app.running.said)
    wait_until(lambda: _is_whole(app, postgres), LIMIT_S, "200 rows", app.running.said)
    assert "sink is down (restart 1, next in 0.5 s): killed by signal 9" in app.running.output.read_text()
    app.wait_for(app.sent, 5)


def _is_whole(app: App, postgres: OwnPostgres) -> bool:
    ((is_there,),) = postgres.ask("SELECT to_regclass('going_back') IS NOT NULL")
    return bool(is_there) and in_warehouse(postgres) == sorted((one.id, one.card, one.amount) for one in app.sent)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_changed_app_goes_back_to_a_savepoint_and_what_cannot_is_refused_with_the_remedy(
    app: App, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    postgres.ask("DROP TABLE IF EXISTS going_back; DROP TABLE IF EXISTS headrace_offsets")
    before = APP.format(size=5) + SINK
    app.start(before)
    app.running.wait_until_ready()
    app.pay(100)
    app.wait_for(app.sent, 5)
    (kept,) = savepoint(app, "good")
    assert kept["batches"]["spend/operation-1"] > 0
    app.pay(50)
    app.wait_for(app.sent, 5)
    said = app.refused(APP.format(size=10) + SINK, "--from-savepoint", "good")
    assert "window spend: `over` changed from Tumbling(5s) to Tumbling(10s)." in said
    assert "Start with --rebuild spend" in said
    assert savepoint(app, "ls") == [kept]  # nothing has happened
    app.start(before + MORE, "--from-savepoint", "good")
    app.running.wait_until_ready()
    assert "restored savepoint good" in app.running.output.read_text()
    app.pay(50)
    app.wait_for(app.sent, 5)
    app.wait_for([one._replace(amount=0.0) for one in app.sent], 20, "counts")
    wanted = spent_of(app.sent, 5)
    wait_until(lambda: app.spent() == wanted, LIMIT_S, f"{wanted}", lambda: f"{app.spent()}\n{app.running.said()}")
    wait_until(lambda: _is_whole(app, postgres), LIMIT_S, "every payment once", app.running.said)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_another_window_is_refused_and_computed_again_from_the_first_or_from_a_time_on(app: App) -> None:
    app.start(APP.format(size=10))
    app.running.wait_until_ready()
    app.pay(100)
    app.wait_for(app.sent, 10)
    assert "Start with --rebuild spend" in app.refused(APP.format(size=5))
    app.start(APP.format(size=5), "--rebuild", "spend")
    app.running.wait_until_ready()
    app.wait_for(app.sent, 5)
    wanted = spent_of(app.sent, 5)
    wait_until(lambda: app.spent() == wanted, LIMIT_S, f"{wanted}", lambda: f"{app.spent()}\n{app.running.said()}")
    since = datetime.now(UTC).isoformat()
    later = app.pay(50)
    app.wait_for(app.sent, 5)
    app.start(APP.format(size=4), "--rebuild", "spend", "--since", since)
    app.running.wait_until_ready()
    app.wait_for(later, 4)


def savepoint(app: App, name: str) -> list[dict[str, Any]]:
    words = ["savepoint", str(app.file), name, "--state", str(app.running.state), "--json"]
    ran = subprocess.run([sys.executable, "-m", "headrace", *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    made: list[dict[str, Any]] = json.loads(ran.stdout)
    return made
