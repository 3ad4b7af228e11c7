"""What servers and scorers read from where processes share the tables, and how full they are."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from headrace.declare.app import App
from headrace.declare.views import View
from headrace.errors import HeadraceError
from headrace.log.follow import ASK_SECONDS
from headrace.log.offsets import Offsets
from headrace.log.records import Partition
from headrace.store.apply import group_of
from headrace.store.captured import Captured
from headrace.store.memory import Table
from headrace.store.online import in_pieces
from headrace.store.reads import Added, Read, Sought, StoreUnavailable
from headrace.store.shared import SharedStore
from headrace.tiles.tile import Entity

NEWS_NS = 2_000_000


class SharedOnline:
    """A store in a server that processes share, which apply workers feed with every view of an app."""

    def __init__(self, app: App, broker: str, store: SharedStore, views: Sequence[View] | None = None) -> None:
        """`views` are those that are read here, if not all."""
        read = app.views if views is None else tuple(views)
        self.store = store
        self._fill = Fill(broker, store, group_of(app.views), read)
        self._captured = Captured(App(app.name, app.streams, read), broker)

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[Read]:
        """One answer an entity; many are read in pieces, so that others are answered in between."""
        reads: list[Read] = []
        for piece in in_pieces(entities):
            reads += await self.store.read(view_name, piece, at_us)
        return reads

    async def read_with(self, view_name: str, added: Sequence[Added], at_us: int) -> list[Read]:
        """One answer an event, each as if it alone were stored already; many are read in pieces."""
        found: list[Read] = []
        for piece in in_pieces(added):
            found += await self.store.read_with(view_name, piece, at_us)
        return found

    async def heard(self, view_name: str, sought: Sequence[Sought]) -> list[bool]:
        return await self.store.heard(view_name, sought)

    @property
    def news(self) -> int:
        """The server does not say when tiles come: there may be news every so often."""
        return time.monotonic_ns() // NEWS_NS

    def wait_for_news(self, seen: int | None, seconds: float) -> None:
        if seen == self.news:
            time.sleep(min(seconds, NEWS_NS / 1e9))

    @property
    def tables(self) -> Mapping[str, Table]:
        return {}

    async def entities(self, view_name: str, most: int) -> Sequence[Entity]:
        return await self.store.entities(view_name, most)

    @property
    def positions(self) -> Mapping[Partition, int]:
        return {}

    async def missing(self) -> list[str]:
        try:
            return [*await self._fill.missing(), *self._captured.missing()]
        except HeadraceError as problem:
            return [str(problem)]

    async def reached(self, ends: Mapping[Partition, int]) -> bool:
        try:
            return await self._fill.left_of(ends) == 0
        except StoreUnavailable:
            return False

    def start(self) -> None:
        """Follow captured tables; the connection is opened by the first read."""
        self._captured.start()

    async def stop(self) -> None:
        self._captured.stop()
        await self.store.close()


class Fill:
    """How far the workers have brought a store: all that was in the changelogs when the server began must be in it."""

    def __init__(self, broker: str, store: SharedStore, group: str, views: Sequence[View]) -> None:
        """`group` is that of the workers, who apply more than these views."""
        self._offsets = Offsets(broker, ASK_SECONDS)
        self._store, self._group = store, group
        self._topics = [view.topic for view in views]
        self._ends: dict[Partition, int] | None = None

    async def missing(self) -> list[str]:
        """What is not in the store yet; asked each time, for a server may come back empty."""
        if self._ends is None:
            self._ends = await asyncio.to_thread(self._wanted)
        left = await self.left_of(self._ends)
        if not left:
            return []
        return [f"the store has {left} records of its changelogs to take in, which needs `headrace run APP apply`"]

    async def left_of(self, ends: Mapping[Partition, int]) -> int:
        """How many records before these ends have not been taken in."""
        places = await self._store.places(self._group, self._topics)
        return sum(max(0, end - places.get(partition, 0)) for partition, end in ends.items())

    def _wanted(self) -> dict[Partition, int]:
        partitions = self._offsets.every_partition(self._topics)
        begins, ends = self._offsets.begin_of(partitions), self._offsets.end_of(partitions)
        return {partition: end for partition, end in ends.items() if end > begins[partition]}
