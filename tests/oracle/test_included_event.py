"""An event included in a read: every aggregate over every window equals brute force over all events."""

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.factory import create_store_reader
from headrace.online_store.feature_lookup import IncludedEvent, LookupResult
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader, OnlineStoreReader
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import all_layouts, base_layouts, stream_layouts
from headrace.tiles.online.event_tiles import EventTiles
from headrace.tiles.tile import encode_key, encode_tile
from tests.oracle import brute
from tests.oracle.streams import SECOND_US, hostile
from tests.oracle.test_kernel_is_brute_force import VIEWS, agrees, in_order

Event = dict[str, Any]


def records(view: View, events: Sequence[Event], history: Sequence[Event] = ()) -> list[ConsumerRecord]:
    """The changelog after some events, and after those that were folded as history."""
    layouts = {layout.version: layout for layout in all_layouts(view)}
    parts = [(events, stream_layouts(view.streams[0], view)), (history, base_layouts(view))]
    tiles = [
        tile
        for own, its_layouts in parts
        for tile in fold_into_tiles(
            view, to_event_columns(view, view.streams[0], own, [one["at"] for one in own]), its_layouts
        )
    ]
    return [
        ConsumerRecord(view.topic, 0, offset, 0, encode_key(key), encode_tile(layouts[key.version], tile), None)
        for offset, (key, tile) in enumerate(tiles)
    ]


def read_with(online: OnlineStoreReader, view: View, event: Event, at_us: int) -> LookupResult:
    own = EventTiles(view, view.streams[0]).fold_event(event, event["at"])
    added = IncludedEvent(tuple(event[name] for name in view.by), own)

    async def ask() -> LookupResult:
        (found,) = await online.read_including(view.name, [added], at_us)
        await online.stop()
        return found

    return asyncio.run(ask())


def require_brute_force(
    online: OnlineStoreReader, view: View, events: Sequence[Event], event: Event, at_us: int
) -> None:
    """What is read with an event is what there would be if it had been among the others."""
    found = read_with(online, view, event, at_us)
    entity = tuple(event[name] for name in view.by)
    expected = brute.features(view, events, entity, at_us)
    for feature, value in zip(view.features, found.values, strict=True):
        assert agrees(feature, value, *expected[feature.name]), (feature.name, entity, at_us)
        assert in_order(value, expected[feature.name].value), (feature.name, entity, at_us)
    longest = max(view.features, key=lambda feature: feature.window.length_us)
    own = [one for one in events if tuple(one[name] for name in view.by) == entity]
    assert max(events for events, _ in found.provenance) == len(brute.taken(view, replace_count(longest), own, at_us))


def replace_count(longest: Any) -> Any:
    """The feature that counts every event of the longest window."""
    return replace(longest, aggregate=replace(longest.aggregate, column=None, where=None))


def chosen(view: View, seed: int) -> tuple[list[Event], Event, int]:
    """The events of a hostile stream, the one that is not stored yet, and a time to ask at."""
    chance = random.Random(seed)
    events = brute.counted(view.streams[0], hostile(seed))
    whole = [event for event in events if None not in [event[name] for name in view.by]]
    event = chance.choice(whole)
    return events, event, max(one["at"] for one in events) + chance.choice((0, 1, 59 * SECOND_US))


@pytest.mark.parametrize("seed", range(60))
def test_an_event_read_with_the_store_is_brute_force_with_the_event(seed: int) -> None:
    view = VIEWS[seed % len(VIEWS)]
    events, event, at_us = chosen(view, seed)
    others = [one for one in events if one is not event]
    half = len(others) // 2 if seed % 3 == 0 else 0
    store = MemoryStore([view])
    store.apply(records(view, others[half:], others[:half]))
    require_brute_force(MemoryStoreReader(store, None), view, events, event, at_us)


@pytest.mark.parametrize("seed", range(15))
def test_an_event_read_with_redis_is_brute_force_with_the_event(redis_url: str, seed: int) -> None:
    view = replace(VIEWS[seed % len(VIEWS)], name=f"Included{os.getpid()}x{seed}")
    events, event, at_us = chosen(view, seed)
    online = create_store_reader(App("hostile", view.streams, (view,)), "127.0.0.1:1", redis_url)
    online.store.apply(records(view, [one for one in events if one is not event]))
    require_brute_force(online, view, events, event, at_us)


def test_an_entity_never_seen_has_its_own_event_alone() -> None:
    view = VIEWS[0]
    event = next(one for seed in range(20) if (one := chosen(view, seed)[1])["at"] > 10**15)
    online = MemoryStoreReader(MemoryStore([view]), None)
    require_brute_force(online, view, [event], event, event["at"])
    require_brute_force(online, view, [event], event, event["at"] + 3600 * SECOND_US)
    assert asyncio.run(online.read(view.name, [("hot",)], event["at"]))[0].event_time_us is None
