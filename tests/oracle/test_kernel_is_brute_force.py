"""Every aggregate over every window on random hostile streams: the kernel equals brute force over raw events."""

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

import headrace as hr
from headrace.declare.features.view import Feature, View
from headrace.declare.streams.schema import Kind
from headrace.tiles.events.record_classification import RawRecord, classify_records
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import FeatureTileKey, decode_key, decode_tile, encode_key, encode_tile
from tests.oracle import brute
from tests.oracle.everything import every_aggregate, hostile_stream
from tests.oracle.streams import SECOND_US, Sent, hostile

POLICIES = [
    hr.Late("1m", then="drop"),
    hr.Late("30s", then="side_output"),
    hr.Late("30s", then="update", until="5m"),
]
ENTITIES = ["card", ["card", "region"], "shop", "flag", "seen"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


VIEWS = [every_aggregate("Everything", hostile_stream("payments", late), by) for late in POLICIES for by in ENTITIES]


def changelog(view: View, sent: list[Sent], chance: random.Random) -> list[tuple[bytes, bytes]]:
    """The tiles of a stream and, as after a crash, of its beginnings: JSON, in any order."""
    verdicts = classify_records(view.streams[0], [RawRecord(orjson.dumps(one.event), one.arrival_us) for one in sent])
    first: dict[Any, tuple[Any, int]] = {}
    for verdict, one in zip(verdicts, sent, strict=True):
        if verdict.fate == "clean" and verdict.event:
            first.setdefault(verdict.event["id"], (verdict.event, one.arrival_us))
    kept = list(first.values())
    records = [record for end in (len(kept), len(kept) // 2) for record in encoded(view, kept[:end])]
    chance.shuffle(records)
    return records


def encoded(view: View, kept: list[tuple[Any, int]]) -> Iterator[tuple[bytes, bytes]]:
    layouts = {layout.hop_us: layout for layout in hop_layouts(view)}
    events = to_event_columns(
        view, view.streams[0], [event for event, _ in kept], [arrival_us for _, arrival_us in kept]
    )
    for key, tile in fold_into_tiles(view, events):
        yield encode_key(key), encode_tile(layouts[key.hop_us], tile)


def store(view: View, records: list[tuple[bytes, bytes]]) -> dict[tuple[Any, ...], list[TileRows]]:
    layouts = hop_layouts(view)
    hops = [layout.hop_us for layout in layouts]
    rows: dict[tuple[Any, ...], list[TileRows]] = {}
    for key_bytes, value in records:
        key: FeatureTileKey = decode_key(key_bytes)
        hop = hops.index(key.hop_us)
        of_entity = rows.setdefault(key.entity, [TileRows(layout) for layout in layouts])
        of_entity[hop].apply(decode_tile(layouts[hop], key.start_us, value))
    return rows


def times(sent: list[Sent], chance: random.Random) -> list[int]:
    """Times to ask at: on both sides of a tile's edge, anywhere, and at the end."""
    event_times = [one.values["at"] for one in sent]
    last_us = max(event_times)
    edge_us = chance.choice(event_times) // (60 * SECOND_US) * 60 * SECOND_US
    return [edge_us, edge_us - 1, chance.randint(min(event_times), last_us), last_us]


def agrees(feature: Feature, kernel: Any, oracle: Any, scale: float, _within: Any) -> bool:
    if oracle is None or kernel is None:
        return kernel is oracle
    if feature.aggregate.kind is Kind.TIMESTAMP and feature.aggregate.function != "distinct":
        return bool(kernel == EPOCH + timedelta(microseconds=oracle))
    if isinstance(oracle, dict):
        return typed(kernel) == typed(oracle)
    if not isinstance(oracle, float):
        return type(kernel) is type(oracle) and bool(kernel == oracle)
    return close(kernel, oracle, scale)


def in_order(kernel: Any, oracle: Any) -> bool:
    return not isinstance(oracle, dict) or list(kernel) == list(oracle)


def typed(counts: dict[Any, int]) -> dict[tuple[type, Any], int]:
    """A map in which true is another key than 1."""
    return {(type(key), key): count for key, count in counts.items()}


def close(kernel: float, oracle: float, scale: float) -> bool:
    if math.isnan(oracle) or math.isinf(oracle):
        return kernel == oracle or (math.isnan(kernel) and math.isnan(oracle))
    return abs(kernel - oracle) <= 1e-9 * scale


@pytest.mark.shows("feature view", late=("drop", "side_output", "update"))
@pytest.mark.parametrize("seed", range(200))
def test_features_of_a_hostile_stream_are_what_loops_over_its_events_say(seed: int) -> None:
    chance = random.Random(seed)
    view = VIEWS[seed % len(VIEWS)]
    sent = hostile(seed)
    rows = store(view, changelog(view, sent, chance))
    reader, counted = FeatureReader(view), brute.counted(view.streams[0], sent)
    entities = {tuple(one.values[name] for name in view.by) for one in sent}
    whole = [entity for entity in entities if None not in entity]
    assert set(rows) <= set(whole)
    for at_us in times(sent, chance):
        for entity in sorted(whole, key=str)[:5]:
            expected = brute.features(view, counted, entity, at_us)
            found = reader.read_values(rows[entity], at_us) if entity in rows else reader.default_row
            for feature, value in zip(view.features, found, strict=True):
                assert agrees(feature, value, *expected[feature.name]), (feature.name, entity, at_us)
                assert in_order(value, expected[feature.name].value), (feature.name, entity, at_us)


@pytest.mark.parametrize("seed", range(50))
def test_each_record_has_the_fate_its_maker_gave_it(seed: int) -> None:
    view, sent = VIEWS[seed % len(VIEWS)], hostile(seed)
    verdicts = classify_records(view.streams[0], [RawRecord(orjson.dumps(one.event), one.arrival_us) for one in sent])
    found = [verdict.reason.split(":")[0] if verdict.reason else verdict.fate for verdict in verdicts]
    assert found == [brute.fate(view.streams[0], one) for one in sent]
