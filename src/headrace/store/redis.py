"""The online table in Redis: one hash an entity and view, one field a tile."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self, TypeVar

from headrace.declare.views import View
from headrace.log.records import Partition, Record
from headrace.store.changelog import Change, Changelog
from headrace.store.hashes import Fields, Hashes, RedisUnavailable, hashes_of
from headrace.store.packing import CHANGED, Unpacker, field_of, hash_key, pack, pack_keeps
from headrace.store.reads import Added, Read, Sought, Unchanged, ViewReader, require_kept, slack_of
from headrace.store.recent import Recent
from headrace.store.scripts import APPLY, KEEP_PLACE
from headrace.store.writes import GONE, writes_of
from headrace.tiles.layout import INT64_MAX, INT64_MIN, HopLayout, layouts_of, parts_of
from headrace.tiles.rows import TileRows
from headrace.tiles.tile import Entity

COMMANDS_AT_ONCE = 500
HELD_AT_MOST = 20_000

Answer = TypeVar("Answer")


class RedisStore:
    """The tables of an app's views: apply workers write them, servers read them.

    Redis may come back empty, so it also keeps the place of each group of workers in the changelog: a group whose place
    is missing begins again at the beginning.
    """

    def __init__(
        self, url: str, views: Sequence[View], hashes: Hashes | None = None, held_at_most: int = HELD_AT_MOST
    ) -> None:
        self._url = url
        self._tables = {view.topic: _Table(view) for view in views}
        self._readers = {view.name: _ViewHashes(view, held_at_most) for view in views}
        self._hashes = hashes or hashes_of(url)
        self._writes = writes_of(url)

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[Read]:
        """One answer an entity, in their order."""
        return [held.answer.read for held in await self._now(view_name, entities, at_us)]

    async def read_with(self, view_name: str, added: Sequence[Added], at_us: int) -> list[Read]:
        """One answer an event, in their order, each as if it alone were stored already."""
        reader = self._readers[view_name]
        stored = await self._now(view_name, [one.entity for one in added], at_us)
        return [reader.read_with(held, one, at_us) for held, one in zip(stored, added, strict=True)]

    async def heard(self, view_name: str, sought: Sequence[Sought]) -> list[bool]:
        """Of each event, whether its tiles have taken in what arrived when it did, or later."""
        reader = self._readers[view_name]
        asked = await self._asked(view_name, [one.entity for one in sought])
        return [reader.heard(*of_key, one) for of_key, one in zip(asked, sought, strict=True)]

    async def places(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        """How far a group has come: the next offset of each partition it has begun, wherever it is kept."""
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
        """Close the connections of both sides."""
        self._writes.close()
        await self._hashes.close()

    def apply(self, records: Iterable[Record]) -> None:
        """Take the tiles of changelog records, in any order and as often as they come."""
        commands = [command for topic, mine in _by_topic(records) for command in self._tables[topic].commands(mine)]
        for first in range(0, len(commands), COMMANDS_AT_ONCE):
            calls = [(command.key, command.arguments) for command in commands[first : first + COMMANDS_AT_ONCE]]
            self._done(partial(self._writes.run, APPLY, calls))

    def keep_places(
        self, group: str, places: Mapping[Partition, int], beginning: Collection[Partition]
    ) -> set[Partition]:
        """Note how far a group has come; gives the partitions of which Redis has lost what was applied before.

        `beginning` are the partitions that are being read from their beginning: they have no place yet.
        """
        calls = [
            (partition, (key, [partition.number, offset, int(partition in beginning)]))
            for partition, offset in places.items()
            for key in self._writes.place_keys(group, partition.topic)
        ]
        kept = self._done(lambda: self._writes.run(KEEP_PLACE, [call for _, call in calls]))
        return {partition for (partition, _), was_there in zip(calls, kept, strict=True) if not was_there}

    def lost_places(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        """The partitions of which Redis has no place of this group."""
        asked = [(one, key) for one in partitions for key in self._writes.place_keys(group, one.topic)]
        kept = self._done(lambda: self._writes.ask([("HEXISTS", key, str(one.number)) for one, key in asked]))
        return {one for (one, _), is_there in zip(asked, kept, strict=True) if not is_there}

    async def _now(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list["_Held"]:
        """What Redis holds of each entity, with its answer at a time."""
        reader = self._readers[view_name]
        return [reader.now(*asked, at_us) for asked in await self._asked(view_name, entities)]

    async def _asked(self, view_name: str, entities: Sequence[Entity]) -> list[tuple[bytes, "_Held", Fields | None]]:
        """Of each entity the key of its hash, what is held of it, and its fields where they are others by now."""
        reader = self._readers[view_name]
        keys = [hash_key(view_name, entity) for entity in entities]
        held = [reader.held(key) for key in keys]
        known = [(key, one.changed) for key, one in zip(keys, held, strict=True)]
        hashes = await self._answered(self._hashes.changed(known))
        return list(zip(keys, held, hashes, strict=True))

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


@dataclass
class _Command:
    """All changes of one entity in one batch of records; of each tile the one with most events."""

    key: bytes
    keep_ms: int
    keeps: bytes
    time_us: int = 0
    tiles: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)

    def add(self, change: Change) -> Self:
        self.time_us = max(self.time_us, change.time_us)
        name = field_of(change.layout, change.start_us)
        if change.n > self.tiles.get(name, (-1, b""))[0]:
            self.tiles[name] = change.n, pack(change.layout, change.tile)
        return self

    @property
    def arguments(self) -> list[int | bytes]:
        fields = [part for name, (_, value) in self.tiles.items() for part in (name, value)]
        return [self.keep_ms, self.time_us, self.keeps, *fields]


class _Table:
    """Turns changelog records of one view into commands."""

    def __init__(self, view: View) -> None:
        self._name = view.name
        self._changelog = Changelog(view)
        self._keeps = pack_keeps(parts_of(view), slack_of(view))
        self._keep_ms = _keep_ms(layouts_of(view), slack_of(view))

    def commands(self, records: Iterable[Record]) -> Iterable[_Command]:
        commands: dict[Entity, _Command] = {}
        for record in records:
            change = self._changelog.change(record)
            if change is not None:
                self._command(commands, change.entity).add(change)
        return commands.values()

    def _command(self, commands: dict[Entity, _Command], entity: Entity) -> _Command:
        if entity not in commands:
            commands[entity] = _Command(hash_key(self._name, entity), self._keep_ms, self._keeps)
        return commands[entity]


class _Held(NamedTuple):
    """The rows of an entity as they came from Redis, and the answer they last gave."""

    changed: bytes
    newest_us: int
    rows_by_hop: Sequence[TileRows | None]
    answer: Unchanged


NO_ANSWER = Unchanged(0, 0, Read([], None, None, ()))  # holds at no time
NOTHING_HELD = _Held(b"", 0, (), NO_ANSWER)


class _ViewHashes:
    """Reads one view from entities' hashes, and keeps the rows of those that were read last.

    Every read asks Redis; a hash that has not changed since is not sent again.
    """

    def __init__(self, view: View, held_at_most: int) -> None:
        self._reader, self._slack_us = ViewReader(view), slack_of(view)
        self._unpacker = Unpacker(parts_of(view))
        self._held: Recent[bytes, _Held] = Recent(held_at_most)

    def held(self, key: bytes) -> _Held:
        """What is known here of a hash."""
        return self._held.get(key, NOTHING_HELD)

    def now(self, key: bytes, held: _Held, fields: Fields | None, at_us: int) -> _Held:
        """What a hash's fields say at a time or, where they are None, what was held when they were asked for."""
        now = held if fields is None else self._taken(key, fields)
        require_kept(at_us, now.newest_us, self._slack_us)
        if now.answer.holds(at_us):
            return now
        return self._kept(key, now._replace(answer=self._reader.read_for_a_while(now.rows_by_hop, at_us)))

    def read_with(self, held: _Held, added: Added, at_us: int) -> Read:
        """The answer as if an event were in the hash already."""
        return self._reader.read_with(held.rows_by_hop, added, at_us)

    def heard(self, key: bytes, held: _Held, fields: Fields | None, sought: Sought) -> bool:
        """Whether the tiles of a hash have taken in an event, or a later one."""
        now = held if fields is None else self._taken(key, fields)
        return self._reader.heard(now.rows_by_hop or [None] * self._reader.lives, sought)

    def _taken(self, key: bytes, fields: Fields) -> _Held:
        rows_by_hop = self._unpacker.rows_by_hop(fields)
        return self._kept(key, _Held(fields.get(CHANGED, b""), _newest_us(rows_by_hop), rows_by_hop, NO_ANSWER))

    def _kept(self, key: bytes, held: _Held) -> _Held:
        if held.changed:
            self._held[key] = held
        return held


def _newest_us(rows_by_hop: Sequence[TileRows | None]) -> int:
    """The newest event time of an entity: by it its older tiles were removed."""
    newest = [rows.newest(INT64_MIN, INT64_MAX) for rows in rows_by_hop if rows is not None]
    return max((min(event_us, arrival_us) for event_us, arrival_us in filter(None, newest)), default=0)


def _by_topic(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    by_topic: dict[str, list[Record]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    return iter(by_topic.items())


def _keep_ms(layouts: Sequence[HopLayout], slack_us: int) -> int:
    """How long a hash lives without a change; 0 is for ever."""
    if any(layout.is_kept_forever for layout in layouts):
        return 0
    return (max(layout.keep_us for layout in layouts) + slack_us) // 1000
