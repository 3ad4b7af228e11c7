"""Whether a store has applied an event: every hop of its stream whose windows cover the event."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

import headrace as hr
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.feature_lookup import EventRef
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.registry import create_store
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import live_layouts
from headrace.tiles.tile import encode_key, encode_tile
from tests.online_store.conftest import KINDS
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend, payments

Ask = Callable[[hr.View, Sequence[ConsumerRecord], Sequence[EventRef]], list[bool]]
refunds = hr.Stream(
    "refunds", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)


def in_memory(view: hr.View, tiles: Sequence[ConsumerRecord], sought: Sequence[EventRef]) -> list[bool]:
    store = MemoryStore([view])
    store.apply(tiles)
    return store.is_applied(view.name, sought)


@pytest.fixture(params=["memory", *KINDS])
def ask(request: pytest.FixtureRequest) -> Ask:
    if request.param == "memory":
        return in_memory
    url = request.getfixturevalue(f"{request.param}_url")

    def shared(view: hr.View, tiles: Sequence[ConsumerRecord], sought: Sequence[EventRef]) -> list[bool]:
        async def once() -> list[bool]:
            store = create_store(url, [view])
            store.apply(tiles)
            twice = [await store.is_applied(view.name, sought) for _ in range(2)]  # the second time of what is held
            await store.close()
            assert twice[0] == twice[1]
            return twice[0]

        return asyncio.run(once())

    return shared


def sought(card: str, time_us: int, arrival_us: int | None = None) -> EventRef:
    return EventRef((card,), payments.name, time_us, time_us if arrival_us is None else arrival_us)


def test_it_has_heard_of_what_is_in_the_tile_of_every_hop(ask: Ask) -> None:
    view, at_us = new_spend(), T0_US + 5 * MINUTE_US
    tiles = changelog([Event("c1", at_us)], view)
    assert ask(view, tiles, [sought("c1", at_us), sought("c2", at_us)]) == [True, False]
    assert ask(new_spend(), changelog([Event("c1", at_us)], view)[:0], [sought("c1", at_us)]) == [False]


def test_one_hop_of_two_is_not_enough(ask: Ask) -> None:
    view, at_us = new_spend(), T0_US + 5 * MINUTE_US
    one, other = changelog([Event("c1", at_us)], view)
    assert ask(view, [one], [sought("c1", at_us)]) == [False]
    assert ask(view, [one, other], [sought("c1", at_us)]) == [True]


def test_neither_an_earlier_arrival_nor_a_later_tile_stands_for_an_event(ask: Ask) -> None:
    view, at_us = new_spend(), T0_US + 5 * MINUTE_US
    tiles = changelog([Event("c1", at_us), Event("c1", at_us + 10 * MINUTE_US)], view)
    later = sought("c1", at_us, arrival_us=at_us + 1000)
    between = sought("c1", at_us + 5 * MINUTE_US)
    assert ask(view, tiles, [later, between]) == [False, False]


def test_a_window_that_did_not_reach_the_event_need_not_have_heard_of_it(ask: Ask) -> None:
    view, at_us = new_spend(), T0_US + 200 * MINUTE_US
    assert ask(view, changelog([Event("c1", at_us)], view), [sought("c1", T0_US, arrival_us=at_us)]) == [True]


def test_of_several_streams_the_event_s_own_must_have_heard_of_it() -> None:
    both = hr.features([payments, refunds], by="card")(type("Both", (), {"number": hr.count(windows=["10m", "1h"])}))
    layouts = {layout.version: layout for layout in live_layouts(both)}
    event = {"id": "p1", "card": "c1", "amount": 1.0, "at": T0_US}
    for stream in (payments, refunds):
        store = MemoryStore([both])
        for key, tile in fold_into_tiles(both, to_event_columns(both, stream, [event], [T0_US])):
            value = encode_tile(layouts[key.version], tile)
            store.apply([ConsumerRecord(both.topic, 0, 0, 0, encode_key(key), value, None)])
        asked = [EventRef(("c1",), name, T0_US, T0_US) for name in ("payments", "refunds")]
        assert store.is_applied("Both", asked) == [stream is payments, stream is refunds]
