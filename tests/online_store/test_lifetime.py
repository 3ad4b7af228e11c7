"""A lifetime window: neither store expires its tiles, and cached answers hold until a tile changes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import redis

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.feature_lookup import LookupResult, TileRowsReader
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.tile_packing import hash_key
from headrace.tiles.layout import hop_layouts
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import decode_tile
from tests.online_store.conftest import KINDS
from tests.online_store.store_reader import Reads
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend, payments

DAY_US = 1440 * MINUTE_US
DAYS = 400


@hr.features(payments, by="card")
class Lifetime:
    payments = hr.count(windows=["1h", "forever"])
    spend = hr.sum("amount", windows=["60d", "forever"])


@dataclass(frozen=True)
class Store:
    """Either store: what applies records, and what reads a card at a time."""

    apply: Callable[[Sequence[ConsumerRecord]], None]
    ask: Callable[[str, int], LookupResult]


@pytest.fixture
def view() -> hr.View:
    return replace(Lifetime, name=new_spend().name)


@pytest.fixture
def reads(view: hr.View, redis_url: str) -> Iterator[Reads]:
    reads = Reads(redis_url, view)
    yield reads
    reads.close()


@pytest.fixture(params=["memory", *KINDS])
def store(request: pytest.FixtureRequest, view: hr.View) -> Iterator[Store]:
    if request.param == "memory":
        memory = MemoryStore([view])
        yield Store(memory.apply, lambda card, at_us: memory.read(view.name, [(card,)], at_us)[0])
    else:
        reads = Reads(request.getfixturevalue(f"{request.param}_url"), view)
        yield Store(reads.store.apply, lambda card, at_us: reads.read([card], at_us)[0])
        reads.close()


def test_every_day_counts_however_long_ago(store: Store, view: hr.View) -> None:
    for day in range(DAYS):
        store.apply(changelog([Event("c1", T0_US + day * DAY_US)], view))
    assert store.ask("c1", T0_US + (DAYS - 1) * DAY_US).values == [1, DAYS, 61 * 1.5, DAYS * 1.5]
    assert store.ask("c1", T0_US + 100_000 * DAY_US).values == [0, DAYS, None, DAYS * 1.5]


def test_an_entity_silent_for_years_is_still_there(store: Store, view: hr.View) -> None:
    store.apply(changelog([Event("silent", T0_US)], view))
    for hour in range(200):
        store.apply(changelog([Event("busy", T0_US + 3000 * DAY_US + hour * 60 * MINUTE_US)], view))
    read = store.ask("silent", T0_US + 3010 * DAY_US)
    assert (read.values, read.event_time_us) == ([0, 1, None, 1.5], T0_US)


def test_the_hash_of_an_entity_has_no_end(reads: Reads, redis_url: str) -> None:
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    assert redis.Redis.from_url(redis_url).ttl(hash_key(reads.view.name, ("c1",))) == -1


def test_an_answer_holds_until_a_finite_window_changes_and_for_ever_once_none_can(view: hr.View) -> None:
    reader, layouts = TileRowsReader(view), hop_layouts(view)
    rows = [TileRows(layout) for layout in layouts]
    for record, layout, held in zip(changelog([Event("c1", T0_US)], view), layouts, rows, strict=True):
        held.apply(decode_tile(layout, T0_US // layout.hop_us * layout.hop_us, record.value or b""))
    assert reader.read_with_validity(rows, T0_US).until_us == T0_US + 61 * MINUTE_US
    assert reader.read_with_validity(rows, T0_US + DAY_US).until_us == T0_US + 61 * DAY_US
    assert reader.read_with_validity(rows, T0_US + 90 * DAY_US).until_us > T0_US + 10**7 * DAY_US
