"""Scorers share a stream; whichever is killed at any time, every event has one prediction that counts."""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.consumers.tailing_consumer import TailingConsumer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.models import ScorerProgress
from tests.models.simulated_stream import Played, final, new_app
from tests.waiting import patiently, wait_until

EVERY_S = 0.01


class Load(threading.Thread):
    """A hundred events a second, some of which come again."""

    def __init__(self, played: Played) -> None:
        super().__init__(daemon=True)
        self.played, self.sent = played, 0
        self._ended, self._dice = threading.Event(), random.Random(5)

    def run(self) -> None:
        while not self._ended.wait(EVERY_S):
            record = self.played.clean(self.played.event(self.sent))
            for _ in range(2 if self._dice.random() < 0.05 else 1):
                self.played.send(record)
            self.sent += 1

    def finish(self) -> int:
        self._ended.set()
        self.join()
        self.played.producer.flush()
        return self.sent


@contextmanager
def scorer(app: Path, broker: str, *flags: str, part: str = "score") -> Iterator[ChildProcess]:
    """`headrace run APP score`, or another part of it."""
    command = [sys.executable, "-m", "headrace", "run", str(app), part, "--broker", broker, *flags]
    output = app.parent / f"{part}{time.monotonic_ns()}.log"
    child = ChildProcess([*command, "--state", str(app.parent)], folder=app.parent, output=output)
    child.start()
    try:
        yield child
    finally:
        assert child.stop(grace_s=patiently(20)) or not child.is_alive()


def killed(child: ChildProcess) -> None:
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(patiently(10))


def endure(broker: EmbeddedBroker, folder: Path, kills: int) -> None:
    played = Played(new_app(folder, broker.address), broker.address)
    app, dice, board = folder / "app.py", random.Random(kills), ProgressTable()
    with ExitStack() as stack:
        stack.enter_context(TailingConsumer(broker.address, [PROGRESS_TOPIC], board.apply))
        both = [stack.enter_context(scorer(app, broker.address)) for _ in range(2)]
        load = Load(played)
        load.start()
        wait_until(
            lambda: sum(busy(board, played).values()) > 100 and len(busy(board, played)) == 2, 60, "both to score"
        )
        for number in range(kills):
            moment = time.monotonic() + dice.uniform(0.3, 2.5)
            wait_until(lambda until=moment: time.monotonic() > until, 10, "a random moment")
            killed(both[number % 2])
            both[number % 2] = stack.enter_context(scorer(app, broker.address))
        sent = load.finish()
        wait_until(lambda: len(final(played.predictions())) == sent, 60, "every event's prediction")
    check(played, sent)


def busy(board: ProgressTable, played: Played) -> dict[str, int]:
    """How many predictions each scorer that has any has made."""
    said = [one for one in board.latest(ScorerProgress) if one.scored == played.model.name]
    return {one.scorer: made for one in said if (made := sum(count for *_, count in one.predictions))}


def check(played: Played, sent: int) -> None:
    everything = played.predictions()
    found = final(everything)
    assert Counter(event_id for event_id, _, _ in found) == Counter(f"e{number}" for number in range(sent))
    wrong = [one for one in found.values() if one.features != played.expected(one)]
    assert wrong == []
    own = sum(all(hop[1] == one.arrival_us for hop in one.known[played.view.name]) for one in found.values())
    stale = sum(bool(one.degraded) for one in found.values())
    sys.stdout.write(
        f"\n{sent} events, {len(everything)} records, {len(everything) - len(found)} of them again; "
        f"{own} vectors end with their own event, {stale} degraded\n"
    )


@pytest.mark.faults
def test_three_kills_leave_every_event_one_prediction_that_counts(broker: EmbeddedBroker, tmp_path: Path) -> None:
    endure(broker, tmp_path, kills=3)


@pytest.mark.faults
@pytest.mark.timeout(1200)
def test_twenty_kills_leave_every_event_one_prediction_that_counts(broker: EmbeddedBroker, tmp_path: Path) -> None:
    endure(broker, tmp_path, kills=20)


def test_a_scorer_on_redis_says_what_the_events_say(broker: EmbeddedBroker, redis_url: str, tmp_path: Path) -> None:
    played = Played(new_app(tmp_path, broker.address, budget="5s"), broker.address)
    app, store = tmp_path / "app.py", ("--store", redis_url)
    with scorer(app, broker.address, *store, part="apply"), scorer(app, broker.address, *store):
        load = Load(played)
        load.start()
        wait_until(lambda: len(played.predictions()) > 200, 60, "some predictions")
        sent = load.finish()
        wait_until(lambda: len(final(played.predictions())) == sent, 60, "every event's prediction")
    check(played, sent)
    assert not [one for one in played.predictions() if one.degraded]
