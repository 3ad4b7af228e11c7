"""Backfilled tiles beside the stream's: both stores keep, merge and expire them alike."""

from collections.abc import Iterator

import pytest
import redis

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.tile_packing import CHANGED_AT_FIELD, hash_key
from headrace.tiles.layout import base_layouts, hop_layouts
from headrace.tiles.tile import decode_key, encode_key
from tests.online_store.store_reader import Reads
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend

HOUR_US = 60 * MINUTE_US


def as_history(records: list[ConsumerRecord], view: hr.View) -> list[ConsumerRecord]:
    """The same tiles under the versions of history."""
    versions = dict(
        zip((one.version for one in hop_layouts(view)), (one.version for one in base_layouts(view)), strict=True)
    )
    keys = [decode_key(record.key or b"") for record in records]
    return [
        record._replace(key=encode_key(key._replace(version=versions[key.version])))
        for record, key in zip(records, keys, strict=True)
    ]


@pytest.fixture
def reads(redis_url: str) -> Iterator[Reads]:
    reads = Reads(redis_url, new_spend())
    yield reads
    reads.close()


@pytest.fixture
def shared(store_url: str) -> Iterator[Reads]:
    reads = Reads(store_url, new_spend())
    yield reads
    reads.close()


def test_both_stores_merge_both_parts_in_any_order(shared: Reads) -> None:
    view, minutes = shared.view, [0, 0, 1, 7, 30, 30]
    history = as_history(changelog([Event("c1", T0_US + minute * MINUTE_US) for minute in minutes[:5]], view), view)
    stream = changelog([Event("c1", T0_US + minute * MINUTE_US + 5) for minute in minutes[2:]], view)
    memory, at_us = MemoryStore([view]), T0_US + 31 * MINUTE_US
    for records in (stream, history, history[:3], stream[:1]):
        memory.apply(records)
        shared.store.apply(records)
    (in_server,), (in_memory,) = shared.read(["c1"], at_us), memory.read(view.name, [("c1",)], at_us)
    assert repr(in_server) == repr(in_memory)  # one of the values is NaN
    assert in_memory.values[:3] == [3, 9, 9 * 1.5]
    assert in_memory.event_time_us == T0_US + 30 * MINUTE_US + 5
    assert in_server.provenance == in_memory.provenance
    assert memory.tables[view.name].event_count == 9


def test_history_that_no_window_holds_is_let_go_of_by_both(reads: Reads, redis_url: str) -> None:
    view = reads.view
    history = as_history(changelog([Event("c1", T0_US + minute * MINUTE_US) for minute in range(40)], view), view)
    stream = changelog([Event("c1", T0_US + 5 * HOUR_US + minute * MINUTE_US) for minute in range(40)], view)
    memory = MemoryStore([view])
    for record in [*history, *stream]:
        memory.apply([record])
        reads.store.apply([record])
    assert memory.tables[view.name].tile_count <= len(stream)
    fields = redis.Redis.from_url(redis_url).hkeys(hash_key(view.name, ("c1",)))
    old = {bytes.fromhex(layout.version) for layout in base_layouts(view)}
    assert not [field for field in fields if field != CHANGED_AT_FIELD and field[:4] in old]
    assert redis.Redis.from_url(redis_url).ttl(hash_key(view.name, ("c1",))) > 0
