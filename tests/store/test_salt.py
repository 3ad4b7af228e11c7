"""A view with salt in a shared store: its parts are fields of one entity, and read as they are from memory."""

import asyncio
import os
from dataclasses import replace

from headrace.store.kinds import store_of
from headrace.store.memory import MemoryStore
from headrace.store.reads import Read, Sought
from headrace.store.shared import SharedStore
from headrace.tiles.salt import salt_of
from tests.oracle.test_history_and_stream import Taps
from tests.oracle.test_salt import in_parts, records, taps


def test_a_shared_store_answers_of_parts_what_memory_does(store_url: str) -> None:
    view = replace(Taps, name=f"Taps{os.getpid()}", salt=8)
    kept = taps([(step * 7_000, step) for step in range(60)])
    assert len({salt_of(str(event["id"]), 8) for event, _ in kept}) == 8
    beginning, whole = (records(view, in_parts(view, view.streams[0], some)) for some in (kept[:30], kept))
    sought = [Sought(("c",), "taps", int(event["at"]), arrival_us, str(event["id"])) for event, arrival_us in kept]
    memory, at_us = MemoryStore([view]), kept[-1][1]

    async def asked(store: SharedStore) -> tuple[list[Read], list[bool]]:
        return await store.read(view.name, [("c",)], at_us), await store.heard(view.name, sought)

    async def told() -> list[tuple[list[Read], list[bool]]]:
        store = store_of(store_url, [view])
        found = []
        for tiles in (beginning, whole, beginning):
            store.apply(tiles)
            found.append(await asked(store))
        await store.close()
        return found

    expected = []
    for tiles in (beginning, whole, beginning):
        memory.apply(tiles)
        expected.append((memory.read(view.name, [("c",)], at_us), memory.heard(view.name, sought)))
    assert asyncio.run(told()) == expected
    assert [sum(heard) for _, heard in expected][1:] == [60, 60]
    assert sum(expected[0][1]) < 60
