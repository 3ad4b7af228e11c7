"""With salt, tiles are folded in parts and merged on read: the values equal brute force over all events."""

import random
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.aggregates.sketches.frequent_items import key_text
from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord as LogRecord
from headrace.online_store.feature_lookup import EventRef, IncludedEvent, TileRowsReader
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.tile_packing import TileUnpacker
from headrace.tiles.events.event_parser import Event
from headrace.tiles.events.record_classification import RawRecord, classify_records
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import (
    all_layouts,
    base_layouts,
    hop_layouts,
    live_layouts,
    salted_layouts,
    salted_live_layouts,
    stream_layouts,
)
from headrace.tiles.online.event_tiles import EventTiles
from headrace.tiles.salt import salt_bucket
from tests.oracle import brute
from tests.oracle.several_streams import counted, hostile_to
from tests.oracle.streams import Sent
from tests.oracle.test_history_and_stream import Taps
from tests.oracle.test_kernel_is_brute_force import VIEWS as ONE_STREAM
from tests.oracle.test_kernel_is_brute_force import times
from tests.oracle.test_several_streams import VIEWS as SEVERAL
from tests.oracle.test_several_streams import Folded, entities_of, in_redis, records, require_right

SALTS = (2, 3, 8)
VIEWS = [*ONE_STREAM, *SEVERAL]
Kept = tuple[Event, int]


def clean(stream: hr.Stream, sent: list[Sent]) -> list[Kept]:
    """The events that count, in the order they arrived, and when."""
    verdicts = classify_records(stream, [RawRecord(orjson.dumps(one.event), one.arrival_us) for one in sent])
    first: dict[Any, Kept] = {}
    for verdict, one in zip(verdicts, sent, strict=True):
        if verdict.fate == "clean" and verdict.event:
            first.setdefault(verdict.event[stream.id], (verdict.event, one.arrival_us))
    return list(first.values())


def in_parts(view: View, stream: hr.Stream, kept: list[Kept]) -> Folded:
    """The tiles of events as a query with salt folds them: each part by itself."""
    found: Folded = []
    for part in range(view.salt):
        own = [one for one in kept if salt_bucket(key_text(one[0][stream.id]), view.salt) == part]
        found += whole(
            view, stream, own, tuple(salted_layouts(layout, view)[part] for layout in stream_layouts(stream, view))
        )
    return found


def whole(view: View, stream: hr.Stream, kept: list[Kept], layouts: tuple[Any, ...]) -> Folded:
    events = to_event_columns(view, stream, [event for event, _ in kept], [arrival_us for _, arrival_us in kept])
    by_version = {layout.version: layout for layout in layouts}
    return [(by_version[key.version], key, tile) for key, tile in fold_into_tiles(view, events, layouts)]


def as_a_crash_leaves_them(view: View, *folded: Folded, chance: random.Random) -> list[LogRecord]:
    """Tiles of all events and, again, of some of them, in any order."""
    found = [record for tiles in folded for record in records(view, tiles)]
    chance.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_features_with_salt_are_what_loops_over_all_events_say(seed: int) -> None:
    chance, has_history = random.Random(seed), seed % 2 == 1
    view = replace(VIEWS[seed * 7 % len(VIEWS)], salt=SALTS[seed % len(SALTS)])
    sent, folded, beginnings = hostile_to(view.streams, seed), Folded(), Folded()
    for stream in view.streams:
        kept = clean(stream, sent[stream.name])
        cut = chance.randint(0, len(kept)) if has_history else 0
        folded += whole(view, stream, kept[:cut], stream_layouts(stream, view, is_base=True))
        folded += in_parts(view, stream, kept[cut:])
        beginnings += in_parts(view, stream, kept[cut : (cut + len(kept)) // 2])
    store = MemoryStore([view], max_cached_reads=0)
    store.apply(as_a_crash_leaves_them(view, folded, beginnings, chance=chance))
    unpacker, reader, hashes = TileUnpacker(all_layouts(view)), TileRowsReader(view), in_redis(folded)
    events = counted(view, sent) if len(view.streams) > 1 else brute.counted(view.streams[0], sent["payments"])
    end_us = store.tables[view.name].newest_time_us + 3_600_000_000
    for entity in entities_of(view, events)[:3]:
        rows = unpacker.unpack_rows(hashes.get(entity, {}))
        for at_us in [*times(sent["payments"], chance), end_us]:
            require_right(view, reader.read(rows, at_us).values, brute.features(view, events, entity, at_us))
        in_memory, unpacked = store.read(view.name, [entity], end_us)[0], reader.read(rows, end_us)
        assert repr(in_memory.provenance) == repr(unpacked.provenance)
        require_right(view, in_memory.values, brute.features(view, events, entity, end_us))
    for stream in view.streams:
        assert store.tables[view.name].stream_event_count(stream) == len(
            entities_in(view, clean(stream, sent[stream.name]))
        )


def entities_in(view: View, kept: list[Kept]) -> list[Kept]:
    return [one for one in kept if None not in [one[0].get(name, "its stream") for name in view.by]]


Tap = tuple[int, int]  # time and id


def taps(given_taps: list[Tap]) -> list[Kept]:
    by_id = {number: 40 * step_us for step_us, number in given_taps}
    return [
        ({"id": f"{number:02}", "card": "c", "label": f"{number}", "at": at_us}, at_us + 5)
        for number, at_us in by_id.items()
    ]


def stored(view: View, kept: list[Kept]) -> MemoryStore:
    store = MemoryStore([view])
    store.apply(records(view, in_parts(view, view.streams[0], kept)))
    return store


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 22_500_000), st.integers(0, 99))), st.sampled_from(SALTS), st.data())
def test_an_answer_of_parts_tells_what_an_answer_of_one_would(
    given_taps: list[Tap], salt: int, data: st.DataObject
) -> None:
    kept, cut = taps(given_taps), replace(Taps, salt=salt)
    one, many = stored(Taps, kept), stored(cut, kept)
    now_us = one.tables["Taps"].newest_time_us
    own = EventTiles(cut, cut.streams[0]).fold_event(
        {"id": "new", "card": "c", "label": "new", "at": now_us}, now_us + 5
    )
    added = [IncludedEvent(("c",), own)]
    for _ in range(4):
        at_us = data.draw(st.integers(max(0, now_us - 60_000_000), now_us + 700_000_000))
        assert many.read("Taps", [("c",)], at_us) == one.read("Taps", [("c",)], at_us)  # in what it was made of too
        assert many.read_including("Taps", added, at_us) == one.read_including("Taps", added, at_us)


def test_an_answer_that_is_kept_ends_when_a_tile_of_any_part_leaves_or_comes() -> None:
    cut = replace(Taps, salt=8)
    store, brute_store = stored(cut, []), stored(Taps, [])
    for number in range(40):
        kept = taps([(step * 100_000, step) for step in range(number + 1)])
        for one, view in ((store, cut), (brute_store, Taps)):
            one.apply(records(view, in_parts(view, view.streams[0], kept)))
        for ahead_us in (0, 3_000_000, 7_000_000):
            at_us = kept[-1][1] + ahead_us
            assert store.read("Taps", [("c",)], at_us) == brute_store.read("Taps", [("c",)], at_us)


def test_the_part_of_an_event_must_have_heard_of_it_and_no_other_speaks_for_it() -> None:
    cut = replace(Taps, salt=8)
    one, other = next(
        (a, b) for a in range(9) for b in range(9) if salt_bucket(f"{a:02}", 8) != salt_bucket(f"{b:02}", 8)
    )
    store = stored(cut, taps([(0, one)]))
    sought = [EventRef(("c",), "taps", 0, 5, f"{number:02}") for number in (one, other)]
    assert store.is_applied("Taps", sought) == [True, False]
    assert MemoryStore([cut]).is_applied("Taps", sought) == [False, False]


def test_parts_have_versions_of_their_own_and_everything_else_has_none_of_salt() -> None:
    cut, finer = replace(Taps, salt=4), replace(Taps, salt=8)
    versions = [{layout.version for layout in salted_live_layouts(view)} for view in (Taps, cut, finer)]
    assert [len(one) for one in versions] == [2, 8, 16]
    assert len(set.union(*versions)) == 2 + 8 + 16
    assert (live_layouts(cut), base_layouts(cut), hop_layouts(cut)) == (
        live_layouts(Taps),
        base_layouts(Taps),
        hop_layouts(Taps),
    )


def test_an_entity_with_one_event_has_room_for_its_part_and_no_more_tiles_than_without_salt() -> None:
    store = stored(replace(Taps, salt=8), taps([(0, 1)]))
    table = store.tables["Taps"]
    assert table.tile_count == len(hop_layouts(Taps))
    assert len(table._states["c",].rows_by_hop) == (salt_bucket("01", 8) + 1) * len(hop_layouts(Taps))
