"""What servers and scorers read from: the app's tables, kept in this process by following the changelogs."""

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, Self, TypeVar

from headrace.declare.app import App
from headrace.log.follow import Follower, State
from headrace.log.records import Partition, Record
from headrace.store.captured import Captured
from headrace.store.memory import MemoryStore, Table
from headrace.store.reads import Added, Read, Sought, StoreFilling, TooManyEntities
from headrace.tiles.tile import Entity

AT_ONCE = 50
SWITCH_SECONDS = 0.0005  # a tenth of Python's default
# Requests and scores leave hardly any cycles behind, and a look for them through all tables stops everything: 70 times
# less often than Python does.
YOUNG_OBJECTS = 50_000

Asked = TypeVar("Asked")


class Online(Protocol):
    """A source of feature values."""

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[Read]:
        """One answer an entity, in their order."""

    async def read_with(self, view_name: str, added: Sequence[Added], at_us: int) -> list[Read]:
        """One answer an event, in their order, each as if it alone were stored already."""

    async def heard(self, view_name: str, sought: Sequence[Sought]) -> list[bool]:
        """Of each event, whether its tiles have taken in what arrived when it did, or later."""

    @property
    def news(self) -> int:
        """A number that is another one where tiles may have come since it was last asked for."""

    def wait_for_news(self, seen: int | None, seconds: float) -> None:
        """Wait until that number is another one than was seen; so long at most."""

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables in this process, by view."""

    async def entities(self, view_name: str, most: int) -> Sequence[Entity]:
        """Every entity of a view that the store has; raises TooManyEntities where they are more than so many."""

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The next offset of each partition of changelogs that this process follows; none before it has caught up."""

    async def missing(self) -> list[str]:
        """What keeps it from answering with everything there was at the start, a sentence each."""

    async def reached(self, ends: Mapping[Partition, int]) -> bool:
        """Whether all that was before these offsets of changelogs is in the store."""

    def start(self) -> None:
        """Begin to follow."""

    async def stop(self) -> None:
        """End what was begun."""


class MemoryOnline:
    """The store in this process's memory, and the thread that feeds it; an app without views needs none."""

    def __init__(self, store: MemoryStore, follower: Follower | None, captured: Captured | None = None) -> None:
        self.store, self._follower, self._captured = store, follower, captured
        self._filled = follower is None

    @classmethod
    def following(cls, app: App, broker: str) -> Self:
        """A store that will follow the changelogs of an app."""
        store, topics = MemoryStore(app.views), [view.topic for view in app.views]

        def apply(records: list[Record]) -> None:
            # What was there before this server began says nothing about how soon it knows.
            store.apply(records, measure=follower.caught_up)

        if not topics:
            return cls(store, None)
        follower = Follower(broker, topics, apply)
        return cls(store, follower, Captured(app, broker))

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[Read]:
        """One answer an entity; many are read in pieces, so that others are answered in between."""
        if not self._filled:
            self._require_filled()
        if len(entities) <= AT_ONCE:
            return self.store.read(view_name, entities, at_us)
        reads: list[Read] = []
        for piece in in_pieces(entities):
            reads += self.store.read(view_name, piece, at_us)
            await asyncio.sleep(0)
        return reads

    async def read_with(self, view_name: str, added: Sequence[Added], at_us: int) -> list[Read]:
        """One answer an event, each as if it alone were stored already; many are read in pieces."""
        if not self._filled:
            self._require_filled()
        found: list[Read] = []
        for piece in in_pieces(added):
            found += self.store.read_with(view_name, piece, at_us)
            if len(piece) < len(added):
                await asyncio.sleep(0)
        return found

    async def heard(self, view_name: str, sought: Sequence[Sought]) -> list[bool]:
        return self.store.heard(view_name, sought)

    def _require_filled(self) -> None:
        """A store that has not read all there was would say less than an earlier server: a value would go back."""
        if self._follower and not self._follower.caught_up:
            raise StoreFilling(f"{_missing(self._follower)[0].capitalize()}. Ask again once /v2/health/ready says so.")
        self._filled = True

    @property
    def news(self) -> int:
        return self.store.news

    def wait_for_news(self, seen: int | None, seconds: float) -> None:
        self.store.wait_for_news(seen, seconds)

    @property
    def tables(self) -> Mapping[str, Table]:
        return self.store.tables

    async def entities(self, view_name: str, most: int) -> Sequence[Entity]:
        table = self.store.tables[view_name]
        if len(table) > most:
            raise TooManyEntities(view_name, f"{len(table):,}", most)
        return table.entities()

    @property
    def positions(self) -> Mapping[Partition, int]:
        return self._follower.positions.next if self._follower and self._follower.caught_up else {}

    async def missing(self) -> list[str]:
        tables = self._captured.missing() if self._captured else []
        return [*(_missing(self._follower) if self._follower else []), *tables]

    async def reached(self, ends: Mapping[Partition, int]) -> bool:
        position = self._follower.positions.next if self._follower else ends
        return all(position.get(partition, 0) >= end for partition, end in ends.items())

    def start(self) -> None:
        for one in (self._follower, self._captured):
            if one:
                one.start()

    async def stop(self) -> None:
        for one in (self._follower, self._captured):
            if one:
                one.stop()


def _missing(follower: Follower) -> list[str]:
    if follower.state is State.FAILED:
        return [f"the store is fed no longer: {follower.trouble}"]
    if follower.caught_up:
        return []
    return [follower.trouble or f"the store has {follower.positions.remaining} records of its changelogs to read"]


def apply_politely() -> None:
    """Have requests and scores wait less: threads take turns quickly, and cycles are rarely looked for."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS)


def in_pieces(asked: Sequence[Asked]) -> Iterator[Sequence[Asked]]:
    """So many as may be read without others waiting."""
    return (asked[first : first + AT_ONCE] for first in range(0, len(asked), AT_ONCE))
