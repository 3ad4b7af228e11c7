"""Reads while tiles are applied: a reader never sees an older state than before."""

import threading
from concurrent.futures import ThreadPoolExecutor

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.memory.memory_store import MemoryStore
from tests.kafka.streams import new_stream
from tests.server.server_thread import Asking, serving_store, tiles_of

STREAM = new_stream()
EVENTS = 120


@hr.features(STREAM, by="card")
class Busy:
    payments = hr.count(windows=["10m", "1h", "1d"])
    spend = hr.sum("amount", windows="1h")


def changelog() -> list[list[ConsumerRecord]]:
    """The tiles after each event, with tiles of before coming again in between, as after a crash."""
    moments = [f"2026-01-01T00:{number % 60:02}:00Z" for number in range(EVENTS)]
    events = [{"id": str(n), "card": "c1", "amount": 1.0, "at": at} for n, at in enumerate(moments)]
    grown = [tiles_of(Busy, events[:count]) for count in range(1, EVENTS + 1)]
    return [records for count, whole in enumerate(grown) for records in (whole, grown[count // 2])]


def counts_seen(ask: Asking, done: threading.Event) -> list[list[float]]:
    """The values of each answer, from the first to one after everything was applied."""
    seen = []
    while True:
        last = done.is_set()
        values = ask.rows(Busy, ["c1"], at="2026-01-01T00:59:30Z")[0]["values"].values()
        seen.append([value or 0 for value in values])
        if last:
            return seen


def test_counts_never_go_back_while_tiles_are_applied() -> None:
    changes = changelog()
    store, done = MemoryStore([Busy]), threading.Event()
    with serving_store(store, Busy) as ask, ThreadPoolExecutor(3) as readers:
        watching = [readers.submit(counts_seen, ask, done) for _ in range(3)]
        for records in changes:
            store.apply(records)
        done.set()
        for seen in (reader.result() for reader in watching):
            for values in zip(*seen, strict=True):
                assert list(values) == sorted(values)
            assert seen[-1] == [EVENTS / 60 * 10, EVENTS, EVENTS, EVENTS]
