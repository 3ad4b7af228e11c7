"""The online table in a server that processes share: what is alike in each of them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.declare.views import View
from headrace.log.records import Partition, Record
from headrace.store.entries import Entries, Entry
from headrace.store.packing import CHANGED, Fields, Unpacker, entity_of, hash_key
from headrace.store.reads import (
    EXPIRY_GRACE_US,
    Added,
    Read,
    Sought,
    TooManyEntities,
    Unchanged,
    ViewReader,
    require_kept,
    slack_of,
)
from headrace.store.recent import Recent
from headrace.store.rows import Span
from headrace.tiles.layout import INT64_MAX, INT64_MIN, parts_of
from headrace.tiles.rows import TileRows
from headrace.tiles.tile import Entity

HELD_AT_MOST = 20_000


class SharedStore(ABC):
    """The tables of an app's views: apply workers write them, servers read them.

    A server may come back empty, so it also keeps the place of each group of workers in the changelog: a group whose
    place is missing begins again at the beginning. Whatever keeps it from answering is raised as StoreUnavailable.
    """

    def __init__(self, views: Sequence[View], held_at_most: int = HELD_AT_MOST) -> None:
        self._entries = {view.topic: Entries(view) for view in views}
        self._readers = {view.name: _ViewHashes(view, held_at_most) for view in views}

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
        since_us = min((one.event_time_us for one in sought), default=0)
        asked = await self._asked(view_name, [one.entity for one in sought], since_us)
        return [reader.heard(*of_key, one) for of_key, one in zip(asked, sought, strict=True)]

    async def entities(self, view_name: str, most: int) -> list[Entity]:
        """Every entity of a view; raises TooManyEntities where they are more than so many."""
        keys = await self._keys(view_name, most)
        found = {entity for key in keys if (entity := entity_of(view_name, key)) is not None}
        if len(found) > most:
            raise TooManyEntities(view_name, f"more than {most:,}", most)
        return list(found)

    def apply(self, records: Iterable[Record]) -> None:
        """Take the tiles of changelog records, in any order and as often as they come."""
        self._write([entry for topic, mine in _by_topic(records) for entry in self._entries[topic].of(mine)])

    @abstractmethod
    async def places(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        """How far a group has come: the next offset of each partition it has begun."""

    @abstractmethod
    def keep_places(
        self, group: str, places: Mapping[Partition, int], beginning: Collection[Partition]
    ) -> set[Partition]:
        """Note how far a group has come; gives the partitions of which the server has lost what was applied before.

        `beginning` are the partitions that are being read from their beginning: they have no place yet.
        """

    @abstractmethod
    def lost_places(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        """The partitions of which the server has no place of this group."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections of both sides."""

    @abstractmethod
    def _write(self, entries: Sequence[Entry]) -> None:
        """Take each tile that has more events than the one that is there."""

    @abstractmethod
    async def _keys(self, view_name: str, most: int) -> Collection[bytes]:
        """The keys of a view's entities, any number of them once they are more than so many."""

    @abstractmethod
    async def _changed(self, asked: "Asked") -> list[Fields | None]:
        """The fields of each entity that is known, or None where it has not changed since."""

    async def _now(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list["_Held"]:
        """What the server holds of each entity, with its answer at a time."""
        reader = self._readers[view_name]
        return [reader.now(*asked, at_us) for asked in await self._asked(view_name, entities, at_us)]

    async def _asked(
        self, view_name: str, entities: Sequence[Entity], since_us: int
    ) -> list[tuple[bytes, "_Held", Fields | None]]:
        """Of each entity its key, what is held of it, and its fields where they are others by now.

        Windows are asked for that end at a time or later.
        """
        reader = self._readers[view_name]
        keys = [hash_key(view_name, entity) for entity in entities]
        held = [reader.held(key) for key in keys]
        known = [(key, one.changed) for key, one in zip(keys, held, strict=True)]
        hashes = await self._changed(Asked(known, reader, since_us))
        return list(zip(keys, held, hashes, strict=True))


class Asked(NamedTuple):
    """Entities of a view as (key, when it last changed as far as is known), and since when the windows end."""

    known: Sequence[tuple[bytes, bytes]]
    reader: "_ViewHashes"
    since_us: int

    @property
    def spans(self) -> list[Span]:
        """What these windows hold, where tiles are sorted."""
        return self.reader.spans(self.since_us)


class _Newest(NamedTuple):
    """The newest event time of an entity, by which its older tiles were removed, and when that event arrived."""

    event_us: int
    arrival_us: int

    def clock_us(self, now_us: int) -> int:
        """The event time of now, if it passed since the last event as it does for everybody."""
        return self.event_us + max(0, now_us - self.arrival_us)


class _Held(NamedTuple):
    """The rows of an entity as they came from the server, and the answer they last gave."""

    changed: bytes
    newest: "_Newest"
    rows_by_hop: Sequence[TileRows | None]
    answer: Unchanged


NO_ANSWER = Unchanged(0, 0, Read([], None, None, ()))  # holds at no time
NOTHING_HELD = _Held(b"", _Newest(0, 0), (), NO_ANSWER)


class _ViewHashes:
    """Reads one view from entities' hashes, and keeps the rows of those that were read last.

    Every read asks the server; a hash that has not changed since is not sent again.
    """

    def __init__(self, view: View, held_at_most: int) -> None:
        self._reader, self._slack_us = ViewReader(view), slack_of(view)
        self._is_recorded = any(stream.is_recorded for stream in view.streams)
        self._unpacker = Unpacker(parts_of(view))
        self._held: Recent[bytes, _Held] = Recent(held_at_most)

    def spans(self, since_us: int) -> list[Span]:
        """What windows hold that end at a time or later."""
        return [
            Span(layout.hop_us, INT64_MIN if layout.is_kept_forever else since_us - layout.keep_us)
            for layout in self._reader.layouts
        ]

    def held(self, key: bytes) -> _Held:
        """What is known here of a hash."""
        return self._held.get(key, NOTHING_HELD)

    def now(self, key: bytes, held: _Held, fields: Fields | None, at_us: int) -> _Held:
        """What a hash's fields say at a time or, where they are None, what was held when they were asked for."""
        now = held if fields is None else self._taken(key, fields)
        self._require_kept(now.newest, at_us)
        if now.answer.holds(at_us):
            return now
        return self._kept(key, now._replace(answer=self._reader.read_for_a_while(now.rows_by_hop, at_us)))

    def _require_kept(self, newest: _Newest, at_us: int) -> None:
        """Refuse a time for which tiles may be gone: removed for newer ones, or expired by the server's clock."""
        require_kept(at_us, newest.event_us, self._slack_us)
        if newest.arrival_us and not self._is_recorded:
            require_kept(at_us, newest.clock_us(clock_us()), self._slack_us + EXPIRY_GRACE_US)

    def read_with(self, held: _Held, added: Added, at_us: int) -> Read:
        """The answer as if an event were in the hash already."""
        return self._reader.read_with(held.rows_by_hop, added, at_us)

    def heard(self, key: bytes, held: _Held, fields: Fields | None, sought: Sought) -> bool:
        """Whether the tiles of a hash have taken in an event, or a later one."""
        now = held if fields is None else self._taken(key, fields)
        return self._reader.heard(now.rows_by_hop or [None] * self._reader.lives, sought)

    def _taken(self, key: bytes, fields: Fields) -> _Held:
        rows_by_hop = self._unpacker.rows_by_hop(fields)
        return self._kept(key, _Held(fields.get(CHANGED, b""), _newest(rows_by_hop), rows_by_hop, NO_ANSWER))

    def _kept(self, key: bytes, held: _Held) -> _Held:
        if held.changed:
            self._held[key] = held
        return held


def clock_us() -> int:
    """This machine's time."""
    return time.time_ns() // 1000


def _newest(rows_by_hop: Sequence[TileRows | None]) -> _Newest:
    newest = [rows.newest(INT64_MIN, INT64_MAX) for rows in rows_by_hop if rows is not None]
    pairs = (_Newest(min(event_us, arrival_us), arrival_us) for event_us, arrival_us in filter(None, newest))
    return max(pairs, default=_Newest(0, 0))


def _by_topic(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    by_topic: dict[str, list[Record]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    return iter(by_topic.items())
