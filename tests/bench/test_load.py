"""The load: each probe has its own card, and cards look alike at every moment of a run."""

import time
from multiprocessing import Pipe

import pytest

from bench.app import CardSpend
from bench.entities import AHEAD_US, Cards
from bench.errors import BenchFailed
from bench.load import Phase, Probe, probe_numbers
from bench.payments import backlog
from bench.probe import LIMIT_SECONDS, SHORTEST_PAUSE_SECONDS, Waiting, delays_ms
from headrace.online_store.memory.memory_store import MemoryStore

NOW_US = 1_767_268_800_000_000


class InTwoAnswers:
    """A server that counts a card on its second request."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def counted(self, cards: list[str]) -> list[str]:
        known = [card for card in cards if card in self._asked]
        self._asked.update(cards)
        return known


def test_ten_probes_a_second_after_the_rate_has_settled() -> None:
    numbers = list(probe_numbers(Phase("at500", rate=500, settle_seconds=2, seconds=3)))
    assert len(numbers) == 30
    assert all(1000 <= number < 2500 for number in numbers)
    assert len({number // 50 for number in numbers}) == 30


def test_every_probe_is_waited_for() -> None:
    receiving, sending = Pipe(duplex=False)
    for number in range(3):
        sending.send(Probe(f"card-{number}", time.monotonic_ns()))
    sending.close()
    assert len(delays_ms(receiving, InTwoAnswers())) == 3


def test_slow_probes_are_asked_for_less_often() -> None:
    waiting = Waiting()
    waiting.add(Probe("quick", 0))
    waiting.arrived(["quick"], 5_000_000)
    assert waiting.pause_seconds == SHORTEST_PAUSE_SECONDS
    for card in ("slow", "slower"):
        waiting.add(Probe(card, 0))
    waiting.arrived(["slow", "slower"], 1_000_000_000)
    assert waiting.pause_seconds == pytest.approx(0.05)


def test_a_probe_that_never_counts_ends_the_benchmark() -> None:
    waiting = Waiting()
    waiting.add(Probe("lost", 0))
    with pytest.raises(BenchFailed, match="payment of lost"):
        waiting.require_hope(int((LIMIT_SECONDS + 1) * 1e9))


def test_a_backlog_has_some_payments_twice() -> None:
    events = list(backlog(5000, NOW_US, rate=500))
    assert len(events) == 5000
    assert 20 < 5000 - len({event["payment_id"] for event in events}) < 300


def test_cards_have_as_many_payments_at_the_end_of_a_run_as_at_its_beginning() -> None:
    store = MemoryStore([CardSpend])
    for batch in Cards(NOW_US, visits_an_hour=10).batches(200):
        store.apply(batch)
    names = list(CardSpend.names)
    for at_us in (NOW_US, NOW_US + AHEAD_US):
        reads = store.read(CardSpend.name, [(f"c{number}",) for number in range(200)], at_us)
        mean = sum(read.values[names.index("payments_1h")] for read in reads) / 200
        assert mean == pytest.approx(50, rel=0.1)
