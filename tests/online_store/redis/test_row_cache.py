"""A cached row equals the one that Redis would return."""

import asyncio

import pytest
import redis

import headrace as hr
from headrace.online_store.redis.hash_reader import HashReader, PooledHashReader
from headrace.online_store.redis.pipeline import PipelinedHashReader
from headrace.online_store.redis.redis_store import RedisStore
from headrace.online_store.tile_packing import hash_key
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend

CARD = ("c1",)


class Counting:
    """Hashes that remember how many came whole."""

    def __init__(self, hashes: HashReader) -> None:
        self._hashes, self.whole = hashes, 0

    async def read_changed(self, known: list[tuple[bytes, bytes]]) -> list[object]:
        answers = await self._hashes.read_changed(known)
        self.whole += sum(answer is not None for answer in answers)
        return list(answers)

    async def close(self) -> None:
        await self._hashes.close()


@pytest.mark.parametrize("hashes_of", [PooledHashReader, PipelinedHashReader])
def test_an_unchanged_hash_is_not_sent_again_and_a_changed_one_is(redis_url: str, hashes_of: type) -> None:
    async def steps() -> None:
        hashes = Counting(hashes_of(redis_url))
        view = new_spend()
        store = RedisStore(redis_url, [view], hashes)  # type: ignore[arg-type]  # reads hashes no other way
        events = [Event("c1", T0_US)]
        store.apply(changelog(events, view))
        counts = [await count(store, view, T0_US), await count(store, view, T0_US + 1)]
        assert (counts, hashes.whole) == ([1, 1], 1)
        events.append(Event("c1", T0_US + MINUTE_US))
        store.apply(changelog(events, view))
        assert (await count(store, view, T0_US + MINUTE_US), hashes.whole) == (2, 2)
        redis.Redis.from_url(redis_url).delete(hash_key(view.name, CARD))
        assert (await count(store, view, T0_US + MINUTE_US), hashes.whole) == (0, 3)
        await store.close()

    asyncio.run(steps())


async def count(store: RedisStore, view: hr.View, at_us: int) -> int:
    """The store's value for the card's hour."""
    (read,) = await store.read(view.name, [CARD], at_us)
    counted: int = read.values[1]
    return counted
