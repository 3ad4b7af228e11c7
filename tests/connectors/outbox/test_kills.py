"""`kill -9` of the relay between every two of its steps: no row is lost, and none is doubled after deduplication."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.postgres import OwnPostgres
from headrace.connectors.outbox.relay import STEPS
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from tests.connectors.outbox.outbox_service import Shop, Writing
from tests.waiting import patiently, wait_until

CHILD = Path(__file__).with_name("child_relays.py")
LIMIT_S = 60.0


class Relays:
    """Starts relays of a shop, one after the other."""

    def __init__(self, shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shop, self._output = shop, folder / "relay.out"
        monkeypatch.setenv("PG_URL", shop.postgres.url)

    def die_at(self, step: str, times: int) -> None:
        """One that is killed when it reaches a step, the so-manieth time."""
        relay = self._start(step, str(times))
        wait_until(lambda: not relay.is_alive(), LIMIT_S, f"a relay to die at {step}", self._said)
        assert self._said().endswith(f"dies at {step}\n"), self._said()

    def finish(self) -> None:
        """One that lives, until the outbox is empty."""
        relay = self._start()
        try:
            wait_until(lambda: self._shop.left() == 0 or not relay.is_alive(), LIMIT_S, "an empty outbox", self._said)
        finally:
            relay.stop(grace_s=patiently(10))
        assert self._shop.left() == 0, self._said()

    def _start(self, *dies: str) -> ChildProcess:
        command = [sys.executable, str(CHILD), self._shop.table, self._shop.broker, *dies]
        relay = ChildProcess(command, folder=CHILD.parents[2], output=self._output)
        relay.start()
        return relay

    def _said(self) -> str:
        return self._output.read_text()[-3000:]


def test_200_transactions_and_a_kill_between_every_two_steps(
    broker: EmbeddedBroker, postgres: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(postgres, broker.address)
    relays, writing = Relays(shop, tmp_path, monkeypatch), Writing(shop, 200)
    for step in STEPS:
        relays.die_at(step, times=2 if step in ("owned", "read", "parked") else 1)
    writing.finish()
    relays.finish()
    again = shop.require_told_once()
    assert again > 0  # else no kill came between sending and removing


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_5000_transactions_and_kills_between_every_two_steps(
    broker: EmbeddedBroker,
    postgres: OwnPostgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    shop, dice = Shop(postgres, broker.address), random.Random(5)
    relays, writing = Relays(shop, tmp_path, monkeypatch), Writing(shop, 5000)
    for step in STEPS * 10:
        relays.die_at(step, dice.randrange(1, 4))
    writing.finish()
    relays.finish()
    again = shop.require_told_once()
    record_property("committed", sum(shop.versions().values()))
    record_property("came again", again)
    assert again > 0
