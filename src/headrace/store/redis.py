"""The online table in Redis: one hash an entity and view, one field a tile."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from headrace.declare.views import View
from headrace.log.records import Partition
from headrace.store.entries import Entry
from headrace.store.hashes import Hashes, RedisUnavailable, hashes_of
from headrace.store.packing import Fields, hash_prefix
from headrace.store.scripts import APPLY, KEEP_PLACE
from headrace.store.shared import HELD_AT_MOST, Asked, SharedStore
from headrace.store.writes import GONE, writes_of

COMMANDS_AT_ONCE = 500

Answer = TypeVar("Answer")


class RedisStore(SharedStore):
    """Tables in one Redis, or in a cluster of them."""

    def __init__(
        self, url: str, views: Sequence[View], hashes: Hashes | None = None, held_at_most: int = HELD_AT_MOST
    ) -> None:
        super().__init__(views, held_at_most)
        self._url = url
        self._hashes = hashes or hashes_of(url)
        self._writes = writes_of(url)

    async def places(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        """How far a group has come, by whichever of its copies is furthest behind."""
        found: dict[Partition, int] = {}
        for topic in topics:
            keys = [key.encode() for key in self._writes.place_keys(group, topic)]
            kept = [
                {int(number): int(offset) for number, offset in fields.items()}
                for fields in await self._answered(self._hashes.read(keys))
            ]
            for number in set[int]().union(*kept):
                found[Partition(topic, number)] = min(places.get(number, 0) for places in kept)
        return found

    async def close(self) -> None:
        self._writes.close()
        await self._hashes.close()

    def keep_places(
        self, group: str, places: Mapping[Partition, int], beginning: Collection[Partition]
    ) -> set[Partition]:
        calls = [
            (partition, (key, [partition.number, offset, int(partition in beginning)]))
            for partition, offset in places.items()
            for key in self._writes.place_keys(group, partition.topic)
        ]
        kept = self._done(lambda: self._writes.run(KEEP_PLACE, [call for _, call in calls]))
        return {partition for (partition, _), was_there in zip(calls, kept, strict=True) if not was_there}

    def lost_places(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        asked = [(one, key) for one in partitions for key in self._writes.place_keys(group, one.topic)]
        kept = self._done(lambda: self._writes.ask([("HEXISTS", key, str(one.number)) for one, key in asked]))
        return {one for (one, _), is_there in zip(asked, kept, strict=True) if not is_there}

    def _write(self, entries: Sequence[Entry]) -> None:
        for first in range(0, len(entries), COMMANDS_AT_ONCE):
            calls = [(entry.key, _arguments(entry)) for entry in entries[first : first + COMMANDS_AT_ONCE]]
            self._done(partial(self._writes.run, APPLY, calls))

    async def _keys(self, view_name: str, most: int) -> set[bytes]:
        return await self._answered(self._hashes.keys(hash_prefix(view_name), most))

    async def _changed(self, asked: Asked) -> list[Fields | None]:
        return await self._answered(self._hashes.changed(asked.known))

    async def _answered(self, asked: Awaitable[Answer]) -> Answer:
        try:
            return await asked
        except GONE as failure:
            raise RedisUnavailable(self._url, failure) from failure

    def _done(self, work: Callable[[], list[int]]) -> list[int]:
        try:
            return work()
        except GONE as failure:
            raise RedisUnavailable(self._url, failure) from failure


def _arguments(entry: Entry) -> list[int | bytes]:
    """What the script that applies an entry is told."""
    fields = [part for named in entry.fields() for part in named]
    return [entry.lifetimes.longest_ms, entry.time_us, entry.lifetimes.packed, *fields]
