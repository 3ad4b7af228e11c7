"""Views of several streams equal brute force over all their events, in the kernel and in point-in-time reads."""

import json
import random
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import orjson
import pyarrow as pa
import pytest

import headrace as hr
from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord as LogRecord
from headrace.lake import arrow_events
from headrace.lake.historical_features import compute_past_features
from headrace.online_store.feature_lookup import TileRowsReader
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.tile_packing import TileUnpacker, pack_tile, tile_field
from headrace.tiles.events.record_classification import RawRecord, classify_records
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import HopLayout, all_layouts, hop_layouts, live_layouts, stream_layouts
from headrace.tiles.tile import FeatureTile, FeatureTileKey, encode_key, encode_tile
from tests.lake.test_historical_features import first_of_each_id, spine_table, whole
from tests.oracle import brute
from tests.oracle.everything import every_aggregate
from tests.oracle.several_streams import counted, hostile_to, of_streams, payments, refunds, visits
from tests.oracle.streams import Sent
from tests.oracle.test_kernel_is_brute_force import EPOCH, agrees, in_order, times

LATE = (hr.Late("5m"), hr.Late("30s", then="update", until="8d"), hr.Late("1m", then="drop"))
ENTITIES: list[str | list[str]] = ["card", ["card", "region"], "shop", ["card", "stream"]]
TWO = (refunds(LATE[1]), payments(LATE[0]))
THREE = (payments(LATE[0]), visits(LATE[2]), refunds(LATE[1]))
VIEWS = [
    made("Several", streams, by)
    for streams in (TWO, THREE)
    for made in (every_aggregate, of_streams)
    for by in ENTITIES
]
Folded = list[tuple[HopLayout, FeatureTileKey, FeatureTile]]


def tiles(view: View, stream: hr.Stream, sent: list[Sent], cut: int) -> Folded:
    """The tiles of what one stream was sent: history before the cut, which may be none, and the stream after it."""
    verdicts = classify_records(stream, [RawRecord(orjson.dumps(one.event), one.arrival_us) for one in sent])
    first: dict[Any, tuple[int, Any, int]] = {}
    for place, (verdict, one) in enumerate(zip(verdicts, sent, strict=True)):
        if verdict.fate == "clean" and verdict.event:
            first.setdefault(verdict.event[stream.id], (place, verdict.event, one.arrival_us))
    found: Folded = []
    for is_base in (True, False):
        layouts = {layout.version: layout for layout in stream_layouts(stream, view, is_base=is_base)}
        own = [kept for kept in first.values() if (kept[0] < cut) is is_base]
        events = to_event_columns(view, stream, [event for _, event, _ in own], [arrival_us for *_, arrival_us in own])
        found += [
            (layouts[key.version], key, tile) for key, tile in fold_into_tiles(view, events, tuple(layouts.values()))
        ]
    return found


def records(view: View, folded: Folded) -> list[LogRecord]:
    return [
        LogRecord(view.topic, 0, 0, 0, encode_key(key), encode_tile(layout, tile), None) for layout, key, tile in folded
    ]


def in_redis(folded: Folded) -> dict[Any, dict[bytes, bytes]]:
    hashes: dict[Any, dict[bytes, bytes]] = {}
    for layout, key, tile in folded:
        hashes.setdefault(key.entity, {})[tile_field(layout, key.start_us)] = pack_tile(layout, tile)
    return hashes


def entities_of(view: View, events: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = {tuple(event[name] for name in view.by) for event in events}
    return sorted((entity for entity in found if None not in entity), key=str)


@pytest.mark.parametrize("has_history", [False, True], ids=["streams", "history and streams"])
@pytest.mark.parametrize("seed", range(12))
def test_features_of_several_streams_are_what_loops_over_all_events_say(seed: int, has_history: bool) -> None:
    chance, view = random.Random(seed), VIEWS[seed % len(VIEWS)]
    sent = hostile_to(view.streams, seed)
    folded = [
        one
        for stream in view.streams
        for one in tiles(view, stream, sent[stream.name], chance.randint(0, 100) if has_history else 0)
    ]
    changes = records(view, [*folded, *folded[: len(folded) // 2]])
    chance.shuffle(changes)
    store = MemoryStore([view], max_cached_reads=0)
    store.apply(changes)
    unpacker, reader, hashes = TileUnpacker(all_layouts(view)), TileRowsReader(view), in_redis(folded)
    events, end_us = counted(view, sent), store.tables[view.name].newest_time_us + 3_600_000_000
    for entity in entities_of(view, events)[:5]:
        rows = unpacker.unpack_rows(hashes.get(entity, {}))
        for at_us in [*times(sent["payments"], chance), end_us]:
            require_right(view, reader.read(rows, at_us).values, brute.features(view, events, entity, at_us))
        in_memory, unpacked = store.read(view.name, [entity], end_us)[0], reader.read(rows, end_us)
        assert repr(in_memory) == repr(unpacked)  # one of the values may be NaN
        own = [event for event in events if tuple(event[name] for name in view.by) == entity]
        assert in_memory.event_time_us == max(brute.time_of(view, event) for event in own)


def require_right(view: View, found: Sequence[Any], expected: dict[str, brute.Expected]) -> None:
    for feature, value in zip(view.features, found, strict=True):
        assert agrees(feature, whole(value), *expected[feature.name]), (feature.name, value, expected[feature.name])
        assert in_order(value, expected[feature.name].value), (feature.name, value, expected[feature.name])


@pytest.mark.parametrize("as_of", ["arrival", "event"])
@pytest.mark.parametrize("seed", range(12))
def test_looking_back_at_several_streams_is_what_loops_over_the_events_known_then_say(seed: int, as_of: str) -> None:
    chance, view = random.Random(seed), VIEWS[seed % len(VIEWS)]
    sent = hostile_to(view.streams, seed)
    clean = {stream: first_of_each_id(stream, sent[stream.name]) for stream in view.streams}
    tables = [table_of(view, stream, own, as_of) for stream, own in clean.items()]
    events = counted(view, sent)
    entities = [*entities_of(view, events), tuple("never" if name == "card" else None for name in view.by)]
    asked = [one.arrival_us for own in sent.values() for one in own]
    rows = [(chance.choice(entities), chance.choice(asked) + chance.choice((-1, 0, 0, 1))) for _ in range(40)]
    found = compute_past_features(view, pa.concat_tables(tables), spine_table(view, rows)).to_pylist(
        maps_as_pydicts="strict"
    )
    for (entity, at_us), row in zip(rows, found, strict=True):
        known = brute.united(
            view,
            {
                stream.name: [one.values for one in own if known_us(one, stream, as_of) <= at_us]
                for stream, own in clean.items()
            },
        )
        expected = brute.features(view, [] if None in entity else known, entity, at_us)
        require_right(view, [row[feature.name] for feature in view.features], expected)


def known_us(one: Sent, stream: hr.Stream, as_of: str) -> int:
    return one.arrival_us if as_of == "arrival" else int(one.values[stream.time])


def table_of(view: View, stream: hr.Stream, clean: list[Sent], as_of: str) -> pa.Table:
    known = [known_us(one, stream, as_of) for one in clean]
    return arrow_events.to_events_table(view, stream, [one.values for one in clean], known)


@pytest.mark.parametrize("seed", range(6))
def test_a_fed_view_of_several_streams_is_what_loops_over_all_events_say(seed: int) -> None:
    view = VIEWS[seed % len(VIEWS)]
    sent = hostile_to(view.streams, seed)
    fed = hr.testing.feed(
        view,
        {
            stream.name: [
                hr.testing.Arrival(json.dumps(one.event).encode(), one.arrival_us - one.values[stream.time])
                for one in sent[stream.name]
            ]
            for stream in view.streams
        },
    )
    events, at_us = counted(view, sent), max(one.arrival_us for own in sent.values() for one in own)
    assert len(fed.clean) == len(events)
    fates = [brute.fate(stream, one) for stream in view.streams for one in sent[stream.name]]
    assert (len(fed.clean) + len(fed.duplicates), len(fed.late)) == (fates.count("clean"), fates.count("late"))
    for entity in entities_of(view, events)[:5]:
        row = fed.at(EPOCH + timedelta(microseconds=at_us))[entity if len(entity) > 1 else entity[0]]
        expected = brute.features(view, events, entity, at_us)
        require_right(view, [getattr(row, feature.name) for feature in view.features], expected)


def test_equal_ids_of_different_streams_are_different_events_and_of_equal_times_the_name_decides() -> None:
    at = "2026-01-01T00:00:00Z"
    one, two, three = (
        hr.Stream(name, schema="id string, card string, what string, at timestamp", id="id", key="card", time="at")
        for name in ("b", "a", "c")
    )

    @hr.features([one, two, three], by="card")
    class Ties:
        number = hr.count(windows="1h")
        first = hr.first("what", windows="1h")
        last = hr.last("what", windows="1h")

    def event(what: str, event_id: str = "x") -> dict[str, str]:
        return {"id": event_id, "card": "c1", "what": what, "at": at}

    fed = hr.testing.feed(Ties, {"c": [event("of c")], "b": [event("of b"), event("again")], "a": [event("of a")]})
    row = fed.at(at)["c1"]
    assert (row.number_1h, row.first_1h, row.last_1h) == (3, "of a", "of c")
    fed = hr.testing.feed(Ties, {"c": [event("of c", "a")], "b": [], "a": [event("of a", "b")]})
    row = fed.at(at)["c1"]
    assert (row.number_1h, row.first_1h, row.last_1h) == (2, "of c", "of a")


def test_versions_of_tiles_tell_streams_apart_and_do_not_depend_on_how_these_are_listed() -> None:
    one, other = every_aggregate("Several", TWO, "card"), every_aggregate("Several", TWO[::-1], "card")
    assert [layout.version for layout in all_layouts(one)] == [layout.version for layout in all_layouts(other)]
    assert (
        len({layout.version for layout in all_layouts(one)}) == 2 * len(live_layouts(one)) == 4 * len(hop_layouts(one))
    )
    alone, listed = every_aggregate("Several", TWO[1], "card"), every_aggregate("Several", [TWO[1]], "card")
    assert listed == alone
    assert not {layout.version for layout in all_layouts(alone)} & {layout.version for layout in all_layouts(one)}


def test_what_an_answer_was_made_of_is_told_for_each_stream() -> None:
    view = every_aggregate("Several", TWO, "card")
    sent = hostile_to(view.streams, 3)
    folded = [one for stream in view.streams for one in tiles(view, stream, sent[stream.name], 50)]
    store = MemoryStore([view])
    store.apply(records(view, folded))
    at_us = store.tables[view.name].newest_time_us + 1
    (read,) = store.read(view.name, [("hot",)], at_us)
    lives = live_layouts(view)
    for stream in view.streams:
        own = [event for event in brute.counted(stream, sent[stream.name]) if event["card"] == "hot"]
        forever = max(
            range(len(lives)), key=lambda place: (lives[place].part.stream == stream.name, lives[place].hop_us)
        )
        assert read.provenance[forever].event_count == len(own)
        clean = [one for one in first_of_each_id(stream, sent[stream.name]) if one.values["card"] == "hot"]
        assert read.provenance[forever].arrival_us == max(one.arrival_us for one in clean)
        assert store.tables[view.name].stream_event_count(stream) == len(brute.counted(stream, sent[stream.name]))
