"""Tiles of several streams: both stores keep, merge and expire them alike, whichever stream is ahead."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.tile_packing import CHANGED_AT_FIELD, hash_key
from headrace.tiles.layout import hop_layouts, live_layouts, stream_layouts
from headrace.tiles.tile import decode_key, encode_key
from tests.online_store.store_reader import Reads
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend, payments

refunds = hr.Stream(
    "refunds", schema="nr string, card string, amount double, back timestamp", id="nr", key="card", time="back"
)


@pytest.fixture
def reads(redis_url: str) -> Iterator[Reads]:
    reads = Reads(redis_url, replace(new_spend(), streams=(refunds, payments)))
    yield reads
    reads.close()


@pytest.fixture
def shared(store_url: str) -> Iterator[Reads]:
    reads = Reads(store_url, replace(new_spend(), streams=(refunds, payments)))
    yield reads
    reads.close()


def of_stream(stream: hr.Stream, view: hr.View, *minutes: int, is_base: bool = False) -> list[ConsumerRecord]:
    """The tiles of one stream after events in these minutes."""
    alone = replace(view, streams=(stream,))
    versions = [
        [layout.version for layout in layouts]
        for layouts in (hop_layouts(view), stream_layouts(stream, view, is_base=is_base))
    ]
    renamed = dict(zip(*versions, strict=True))
    records = changelog([Event("c1", T0_US + minute * MINUTE_US) for minute in minutes], alone)
    keys = [decode_key(record.key or b"") for record in records]
    return [
        record._replace(key=encode_key(key._replace(version=renamed[key.version])))
        for record, key in zip(records, keys, strict=True)
    ]


def test_both_stores_merge_the_parts_of_all_streams_in_any_order(shared: Reads) -> None:
    view = shared.view
    parts = [
        of_stream(refunds, view, 1, 30, 31),
        of_stream(payments, view, 0, 0, 7, 30),
        of_stream(refunds, view, 2, 7, is_base=True),
    ]
    memory, at_us = MemoryStore([view]), T0_US + 31 * MINUTE_US
    for records in (parts[0], parts[1], parts[2], parts[1][:3], parts[0][:1]):
        memory.apply(records)
        shared.store.apply(records)
    (in_server,), (in_memory,) = shared.read(["c1"], at_us), memory.read(view.name, [("c1",)], at_us)
    assert repr(in_server) == repr(in_memory)  # one of the values may be NaN
    assert in_memory.values[:3] == [3, 9, 9 * 1.5]
    assert in_memory.event_time_us == T0_US + 31 * MINUTE_US
    known = in_memory.provenance
    assert known == in_server.provenance
    minute_of = {
        layout.part.stream: place for place, layout in enumerate(live_layouts(view)) if layout.hop_us == MINUTE_US
    }
    assert known[minute_of["payments"]] == (4, T0_US + 30 * MINUTE_US)
    assert known[minute_of["refunds"]] == (5, T0_US + 31 * MINUTE_US)
    table = memory.tables[view.name]
    assert (table.event_count, table.stream_event_count(payments), table.stream_event_count(refunds)) == (9, 4, 5)


def test_what_no_window_holds_is_let_go_of_whichever_stream_it_is_of(reads: Reads, redis_url: str) -> None:
    view = reads.view
    old, new = of_stream(payments, view, *range(40)), of_stream(refunds, view, *range(300, 340))
    memory = MemoryStore([view])
    for record in [*old, *new]:
        memory.apply([record])
        reads.store.apply([record])
    assert memory.tables[view.name].tile_count <= len(new)
    fields = redis.Redis.from_url(redis_url).hkeys(hash_key(view.name, ("c1",)))
    gone = {bytes.fromhex(layout.version) for layout in stream_layouts(payments, view)}
    assert not [field for field in fields if field != CHANGED_AT_FIELD and field[:4] in gone]
