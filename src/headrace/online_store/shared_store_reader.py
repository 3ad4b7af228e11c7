"""The reader of servers and scorers for shared stores, and how far the stores are filled."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from headrace.declare.app import App
from headrace.declare.features.view import View
from headrace.errors import HeadraceError
from headrace.kafka.consumers.tailing_consumer import SHORT_REQUEST_TIMEOUT_SECONDS
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.record import Partition
from headrace.online_store.changelog_applier import apply_group
from headrace.online_store.feature_lookup import EventRef, IncludedEvent, LookupResult, StoreUnavailable
from headrace.online_store.memory.memory_store import ViewTable
from headrace.online_store.memory.memory_store_reader import split_batches
from headrace.online_store.shared_store import SharedStore
from headrace.online_store.table_replica import TableReplica
from headrace.tiles.tile import Entity

POLL_INTERVAL_NS = 2_000_000


class SharedStoreReader:
    """A shared store, which apply workers fill with every view of an app."""

    def __init__(self, app: App, broker: str, store: SharedStore, views: Sequence[View] | None = None) -> None:
        """`views` are the views to read, by default all."""
        read_views = app.views if views is None else tuple(views)
        self.store = store
        self._fill_tracker = StoreFillTracker(broker, store, apply_group(app.views), read_views)
        self._table_replica = TableReplica(App(app.name, app.streams, read_views), broker)

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[LookupResult]:
        """One result per entity; many are read in batches, so that other requests are served in between."""
        results: list[LookupResult] = []
        for batch in split_batches(entities):
            results += await self.store.read(view_name, batch, at_us)
        return results

    async def read_including(self, view_name: str, events: Sequence[IncludedEvent], at_us: int) -> list[LookupResult]:
        """One result per event, each as if only it were already stored; many are read in batches."""
        results: list[LookupResult] = []
        for batch in split_batches(events):
            results += await self.store.read_including(view_name, batch, at_us)
        return results

    async def is_applied(self, view_name: str, events: Sequence[EventRef]) -> list[bool]:
        return await self.store.is_applied(view_name, events)

    @property
    def version(self) -> int:
        """The server does not report changes: tiles may have changed every so often."""
        return time.monotonic_ns() // POLL_INTERVAL_NS

    def wait_for_change(self, seen_version: int | None, seconds: float) -> None:
        if seen_version == self.version:
            time.sleep(min(seconds, POLL_INTERVAL_NS / 1e9))

    @property
    def tables(self) -> Mapping[str, ViewTable]:
        return {}

    async def entities(self, view_name: str, max_entities: int) -> Sequence[Entity]:
        return await self.store.entities(view_name, max_entities)

    @property
    def next_offsets(self) -> Mapping[Partition, int]:
        return {}

    async def readiness_problems(self) -> list[str]:
        try:
            return [*await self._fill_tracker.readiness_problems(), *self._table_replica.readiness_problems()]
        except HeadraceError as problem:
            return [str(problem)]

    async def has_reached(self, ends: Mapping[Partition, int]) -> bool:
        try:
            return await self._fill_tracker.remaining_records(ends) == 0
        except StoreUnavailable:
            return False

    def start(self) -> None:
        """Consume captured tables; the first read opens the connection."""
        self._table_replica.start()

    async def stop(self) -> None:
        self._table_replica.stop()
        await self.store.close()


class StoreFillTracker:
    """Tracks how far a store is filled: everything that was in the changelogs when the server started must be in it."""

    def __init__(self, broker: str, store: SharedStore, group: str, views: Sequence[View]) -> None:
        """`group` is that of the apply workers, who apply more than these views."""
        self._offsets = OffsetClient(broker, SHORT_REQUEST_TIMEOUT_SECONDS)
        self._store, self._group = store, group
        self._topics = [view.topic for view in views]
        self._required_ends: dict[Partition, int] | None = None

    async def readiness_problems(self) -> list[str]:
        """What is missing from the store; checked each time, because a server may come back empty."""
        if self._required_ends is None:
            self._required_ends = await asyncio.to_thread(self._read_required_ends)
        remaining = await self.remaining_records(self._required_ends)
        if not remaining:
            return []
        return [f"the store has {remaining} records of its changelogs to apply, which needs `headrace run APP apply`"]

    async def remaining_records(self, ends: Mapping[Partition, int]) -> int:
        """How many records before these end offsets have not been applied."""
        offsets = await self._store.read_offsets(self._group, self._topics)
        return sum(max(0, end - offsets.get(partition, 0)) for partition, end in ends.items())

    def _read_required_ends(self) -> dict[Partition, int]:
        partitions = self._offsets.require_partitions(self._topics)
        begin_offsets, end_offsets = self._offsets.start_offsets(partitions), self._offsets.end_offsets(partitions)
        return {partition: end for partition, end in end_offsets.items() if end > begin_offsets[partition]}
