"""A salted view in a shared store: its parts are fields of one entity, and reads equal those from memory."""

import asyncio
import os
from dataclasses import replace

from headrace.online_store.feature_lookup import EventRef, LookupResult
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.registry import create_store
from headrace.online_store.shared_store import SharedStore
from headrace.tiles.salt import salt_bucket
from tests.oracle.test_history_and_stream import Taps
from tests.oracle.test_salt import in_parts, records, taps


def test_a_shared_store_answers_of_parts_what_memory_does(store_url: str) -> None:
    view = replace(Taps, name=f"Taps{os.getpid()}", salt=8)
    kept = taps([(step * 7_000, step) for step in range(60)])
    assert len({salt_bucket(str(event["id"]), 8) for event, _ in kept}) == 8
    beginning, whole = (records(view, in_parts(view, view.streams[0], some)) for some in (kept[:30], kept))
    sought = [EventRef(("c",), "taps", int(event["at"]), arrival_us, str(event["id"])) for event, arrival_us in kept]
    memory, at_us = MemoryStore([view]), kept[-1][1]

    async def asked(store: SharedStore) -> tuple[list[LookupResult], list[bool]]:
        return await store.read(view.name, [("c",)], at_us), await store.is_applied(view.name, sought)

    async def told() -> list[tuple[list[LookupResult], list[bool]]]:
        store = create_store(store_url, [view])
        found = []
        for tiles in (beginning, whole, beginning):
            store.apply(tiles)
            found.append(await asked(store))
        await store.close()
        return found

    expected = []
    for tiles in (beginning, whole, beginning):
        memory.apply(tiles)
        expected.append((memory.read(view.name, [("c",)], at_us), memory.is_applied(view.name, sought)))
    assert asyncio.run(told()) == expected
    assert [sum(heard) for _, heard in expected][1:] == [60, 60]
    assert sum(expected[0][1]) < 60
