"""An answer reports the versions of the very tiles it was read from, even while they change."""

import asyncio
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from headrace.kafka.record import ConsumerRecord
from headrace.online_store.feature_lookup import IncludedEvent, LookupResult
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.registry import create_store
from headrace.online_store.shared_store import SharedStore
from headrace.tiles.online.event_tiles import EventTiles
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend, payments

AT_US = T0_US + 9 * MINUTE_US
EVENTS = [Event("c1", T0_US + number * 150_000) for number in range(3_000)]
OWN = {"id": "own", "card": "c1", "amount": 1.5, "at": AT_US}


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns so often that a tile is found half changed."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def require_whole(read: LookupResult) -> None:
    """Check that counts and sum are those of the events the answer names; its windows cover all events."""
    of_10m, of_1h = (known.event_count for known in read.provenance)
    assert read.values[:3] == [of_10m, of_1h, 1.5 * of_1h if of_1h else None]


class Writer(threading.Thread):
    """Applies tile after tile of one card."""

    def __init__(self, store: MemoryStore | SharedStore, tiles: Sequence[ConsumerRecord]) -> None:
        super().__init__()
        self._store, self._tiles = store, tiles

    def run(self) -> None:
        for record in self._tiles:
            self._store.apply([record])


def test_in_memory_every_read_is_of_whole_tiles_while_they_change(quick_turns: None) -> None:
    view = new_spend()
    store, writer = MemoryStore([view]), None
    added = IncludedEvent(("c1",), EventTiles(view, payments).fold_event(OWN, AT_US))
    writer = Writer(store, changelog(EVENTS, view))
    writer.start()
    seen = set()
    while writer.is_alive():
        (read,), (with_own,) = store.read(view.name, [("c1",)], AT_US), store.read_including(view.name, [added], AT_US)
        require_whole(read)
        require_whole(with_own)
        seen.add(read.provenance[0].event_count)
    writer.join()
    assert len(seen) > 10
    (read,) = store.read(view.name, [("c1",)], AT_US)
    assert read.provenance[0].event_count == len(EVENTS)


def test_in_a_shared_store_every_read_is_of_whole_tiles_while_they_change(store_url: str) -> None:
    async def steps() -> set[int]:
        view = new_spend()
        store = create_store(store_url, [view])
        added = IncludedEvent(("c1",), EventTiles(view, payments).fold_event(OWN, AT_US))
        writer = Writer(store, changelog(EVENTS[:1_000], view))
        writer.start()
        seen = set()
        while writer.is_alive():
            asked = [store.read(view.name, [("c1",)], AT_US) for _ in range(5)]
            for read in [one for (one,) in await asyncio.gather(*asked)]:
                require_whole(read)
                seen.add(read.provenance[0].event_count)
            (with_own,) = await store.read_including(view.name, [added], AT_US)
            require_whole(with_own)
        await store.close()
        return seen

    assert len(asyncio.run(steps())) > 10


def test_a_tile_that_comes_in_the_midst_of_a_read_is_in_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    view, values = new_spend(), FeatureReader.read_values
    first, *news = [changelog(EVENTS[:count], view)[-2:] for count in (1, 2)]
    store = MemoryStore([view])
    store.apply(first)

    def meddled(reader: FeatureReader, rows_by_hop: Sequence[TileRows | None], at_us: int) -> list[object]:
        found = values(reader, rows_by_hop, at_us)
        if news:
            store.apply(news.pop())
        return found

    monkeypatch.setattr(FeatureReader, "read_values", meddled)
    (read,) = store.read(view.name, [("c1",)], AT_US)
    require_whole(read)
    assert (read.provenance[0].event_count, news) == (2, [])
