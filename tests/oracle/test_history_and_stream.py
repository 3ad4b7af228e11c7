"""Cuts a hostile stream anywhere: history and stream, folded apart and merged on read, equal the whole."""

import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord as LogRecord
from headrace.online_store.feature_lookup import TileRowsReader
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.tile_packing import TileUnpacker, pack_tile, tile_field
from headrace.tiles.events.record_classification import RawRecord, classify_records
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import HopLayout, all_layouts, base_layouts, hop_layouts
from headrace.tiles.tile import FeatureTile, FeatureTileKey, encode_key, encode_tile
from tests.oracle import brute
from tests.oracle.streams import Sent, hostile
from tests.oracle.test_kernel_is_brute_force import VIEWS, agrees, times

Folded = list[tuple[HopLayout, FeatureTileKey, FeatureTile]]


def parts(view: View, sent: list[Sent], cut: int) -> tuple[Folded, Folded]:
    """The tiles of what was sent before the cut and after it; an id from before it counts there alone."""
    verdicts = classify_records(view.streams[0], [RawRecord(orjson.dumps(one.event), one.arrival_us) for one in sent])
    first: dict[Any, tuple[int, Any, int]] = {}
    for place, (verdict, one) in enumerate(zip(verdicts, sent, strict=True)):
        if verdict.fate == "clean" and verdict.event:
            first.setdefault(verdict.event["id"], (place, verdict.event, one.arrival_us))
    history = [kept for kept in first.values() if kept[0] < cut]
    stream = [kept for kept in first.values() if kept[0] >= cut]
    return folded(view, history, base_layouts(view)), folded(view, stream, hop_layouts(view))


def folded(view: View, kept: list[tuple[int, Any, int]], layouts: tuple[HopLayout, ...]) -> Folded:
    events = to_event_columns(
        view, view.streams[0], [event for _, event, _ in kept], [arrival_us for *_, arrival_us in kept]
    )
    by_version = {layout.version: layout for layout in layouts}
    return [(by_version[key.version], key, tile) for key, tile in fold_into_tiles(view, events, layouts)]


def records(view: View, tiles: Folded) -> list[LogRecord]:
    return [
        LogRecord(view.topic, 0, 0, 0, encode_key(key), encode_tile(layout, tile), None) for layout, key, tile in tiles
    ]


@pytest.mark.parametrize("seed", range(24))
def test_whatever_the_cut_features_are_what_loops_over_all_events_say(seed: int) -> None:
    chance, view, sent = random.Random(seed), VIEWS[seed % len(VIEWS)], hostile(seed)
    history, stream = parts(view, sent, chance.randint(0, len(sent)))
    changes = records(view, [*history, *stream, *stream[: len(stream) // 2], *history])
    chance.shuffle(changes)
    store = MemoryStore([view], max_cached_reads=0)
    store.apply(changes)
    hashes = in_redis([*history, *stream])
    unpacker, reader, counted = (
        TileUnpacker(all_layouts(view)),
        TileRowsReader(view),
        brute.counted(view.streams[0], sent),
    )
    entities = {entity for one in sent if None not in (entity := tuple(one.values[name] for name in view.by))}
    at_us = max(store.tables[view.name].newest_time_us, times(sent, chance)[-1])
    for entity in sorted(entities, key=str)[:6]:
        expected = brute.features(view, counted, entity, at_us)
        in_memory = store.read(view.name, [entity], at_us)[0]
        unpacked = reader.read(unpacker.unpack_rows(hashes.get(entity, {})), at_us)
        assert (unpacked.event_time_us, unpacked.arrival_us) == (in_memory.event_time_us, in_memory.arrival_us)
        for number, feature in enumerate(view.features):
            for read in (in_memory, unpacked):
                assert agrees(feature, read.values[number], *expected[feature.name]), (feature.name, entity, at_us)


def in_redis(tiles: Folded) -> dict[Any, dict[bytes, bytes]]:
    hashes: dict[Any, dict[bytes, bytes]] = {}
    for layout, key, tile in tiles:
        hashes.setdefault(key.entity, {})[tile_field(layout, key.start_us)] = pack_tile(layout, tile)
    return hashes


taps = hr.Stream("taps", schema="id string, card string, label string, at timestamp", id="id", key="card", time="at")
SECOND_US = 1_000_000


@hr.features(taps, by="card")
class Taps:
    number = hr.count(windows=["5s", "10m"])
    first = hr.first("label", windows="10m")
    last = hr.last("label", windows="10m")


Tap = tuple[int, int, bool]  # time, id, whether it is history


@given(st.lists(st.tuples(st.integers(0, 900 * SECOND_US // 40), st.integers(0, 99), st.booleans())), st.data())
def test_an_answer_of_two_parts_tells_what_one_part_would(given_taps: list[Tap], data: st.DataObject) -> None:
    by_id = {number: (40 * step_us, number, is_history) for step_us, number, is_history in given_taps}
    whole, split = MemoryStore([Taps]), MemoryStore([Taps])
    whole.apply(records(Taps, tapped(list(by_id.values()), hop_layouts(Taps))))
    split.apply(records(Taps, tapped([tap for tap in by_id.values() if tap[2]], base_layouts(Taps))))
    split.apply(records(Taps, tapped([tap for tap in by_id.values() if not tap[2]], hop_layouts(Taps))))
    now_us = whole.tables["Taps"].newest_time_us
    assert split.tables["Taps"].newest_time_us == now_us
    for _ in range(4):
        at_us = data.draw(st.integers(max(0, now_us - 60 * SECOND_US), now_us + 700 * SECOND_US))
        one, two = (store.read("Taps", [("c",)], at_us)[0] for store in (whole, split))
        assert two == one  # in what they were made of too


def tapped(given_taps: list[Tap], layouts: tuple[HopLayout, ...]) -> Folded:
    events = [{"id": f"{number:02}", "card": "c", "label": f"{number}", "at": at_us} for at_us, number, _ in given_taps]
    return folded(Taps, [(0, event, event["at"] + 5) for event in events], layouts)


def test_a_view_without_history_keeps_no_room_for_it() -> None:
    store = MemoryStore([Taps])
    store.apply(records(Taps, tapped([(0, 1, False)], hop_layouts(Taps))))
    assert len(store.tables["Taps"]._states[("c",)].rows_by_hop) == len(hop_layouts(Taps))


def test_tiles_of_history_have_a_version_of_their_own_and_live_ones_keep_theirs() -> None:
    assert [layout.version for layout in hop_layouts(Taps)] == ["ceb36458", "f7375e7a"]
    assert len({layout.version for layout in all_layouts(Taps)}) == 4
