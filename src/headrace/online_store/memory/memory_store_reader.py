"""The reader interface of servers and scorers, and its implementation over tables in this process's memory."""

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, Self, TypeVar

from headrace.declare.app import App
from headrace.kafka.consumers.tailing_consumer import ConsumerState, TailingConsumer
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.online_store.feature_lookup import (
    EventRef,
    IncludedEvent,
    LookupResult,
    StoreNotReadyError,
    TooManyEntitiesError,
)
from headrace.online_store.memory.memory_store import MemoryStore, ViewTable
from headrace.online_store.table_replica import TableReplica
from headrace.tiles.tile import Entity

READ_BATCH_SIZE = 50
SWITCH_INTERVAL_S = 0.0005  # a tenth of Python's default
# Requests and scores create almost no reference cycles, and a collection scans all tables and pauses everything: run it
# 70 times less often than Python does.
GC_THRESHOLD = 50_000

Item = TypeVar("Item")


class OnlineStoreReader(Protocol):
    """A source of feature values."""

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[LookupResult]:
        """One result per entity, in their order."""

    async def read_including(self, view_name: str, events: Sequence[IncludedEvent], at_us: int) -> list[LookupResult]:
        """One result per event, in their order, each as if only it were already stored."""

    async def is_applied(self, view_name: str, events: Sequence[EventRef]) -> list[bool]:
        """For each event, whether its tiles include an event that arrived when it did, or later."""

    @property
    def version(self) -> int:
        """A number that changes whenever tiles may have changed."""

    def wait_for_change(self, seen_version: int | None, seconds: float) -> None:
        """Wait until the version differs from the one seen, up to a timeout."""

    @property
    def tables(self) -> Mapping[str, ViewTable]:
        """The tables in this process, by view."""

    async def entities(self, view_name: str, max_entities: int) -> Sequence[Entity]:
        """Every entity of a view in the store; raises TooManyEntitiesError if there are more than `max_entities`."""

    @property
    def next_offsets(self) -> Mapping[Partition, int]:
        """The next offset of each changelog partition that this process consumes; none before it has caught up."""

    async def readiness_problems(self) -> list[str]:
        """The reasons why it cannot answer completely yet, one sentence each."""

    async def has_reached(self, ends: Mapping[Partition, int]) -> bool:
        """Whether everything before these changelog offsets is in the store."""

    def start(self) -> None:
        """Start consuming."""

    async def stop(self) -> None:
        """Stop what `start` started."""


class MemoryStoreReader:
    """The store in this process's memory, and the thread that fills it; an app without views needs none."""

    def __init__(
        self, store: MemoryStore, consumer: TailingConsumer | None, table_replica: TableReplica | None = None
    ) -> None:
        self.store, self._consumer, self._table_replica = store, consumer, table_replica
        self._is_filled = consumer is None

    @classmethod
    def create(cls, app: App, broker: str) -> Self:
        """A store that will consume the changelogs of an app."""
        store, topics = MemoryStore(app.views), [view.topic for view in app.views]

        def apply_records(records: list[ConsumerRecord]) -> None:
            # Delays are not measured for records from before the start of this server.
            store.apply(records, measure=consumer.is_caught_up)

        if not topics:
            return cls(store, None)
        consumer = TailingConsumer(broker, topics, apply_records)
        return cls(store, consumer, TableReplica(app, broker))

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[LookupResult]:
        """One result per entity; many are read in batches, so that other requests are served in between."""
        if not self._is_filled:
            self._require_filled()
        if len(entities) <= READ_BATCH_SIZE:
            return self.store.read(view_name, entities, at_us)
        results: list[LookupResult] = []
        for batch in split_batches(entities):
            results += self.store.read(view_name, batch, at_us)
            await asyncio.sleep(0)
        return results

    async def read_including(self, view_name: str, events: Sequence[IncludedEvent], at_us: int) -> list[LookupResult]:
        """One result per event, each as if only it were already stored; many are read in batches."""
        if not self._is_filled:
            self._require_filled()
        results: list[LookupResult] = []
        for batch in split_batches(events):
            results += self.store.read_including(view_name, batch, at_us)
            if len(batch) < len(events):
                await asyncio.sleep(0)
        return results

    async def is_applied(self, view_name: str, events: Sequence[EventRef]) -> list[bool]:
        return self.store.is_applied(view_name, events)

    def _require_filled(self) -> None:
        """Refuse to answer before the store has caught up: values could be older than those of an earlier server."""
        if self._consumer and not self._consumer.is_caught_up:
            raise StoreNotReadyError(
                f"{_consumer_problems(self._consumer)[0].capitalize()}. Ask again once /v2/health/ready says so."
            )
        self._is_filled = True

    @property
    def version(self) -> int:
        return self.store.version

    def wait_for_change(self, seen_version: int | None, seconds: float) -> None:
        self.store.wait_for_change(seen_version, seconds)

    @property
    def tables(self) -> Mapping[str, ViewTable]:
        return self.store.tables

    async def entities(self, view_name: str, max_entities: int) -> Sequence[Entity]:
        table = self.store.tables[view_name]
        if len(table) > max_entities:
            raise TooManyEntitiesError(view_name, f"{len(table):,}", max_entities)
        return table.entities()

    @property
    def next_offsets(self) -> Mapping[Partition, int]:
        return self._consumer.positions.next_offsets if self._consumer and self._consumer.is_caught_up else {}

    async def readiness_problems(self) -> list[str]:
        table_problems = self._table_replica.readiness_problems() if self._table_replica else []
        return [*(_consumer_problems(self._consumer) if self._consumer else []), *table_problems]

    async def has_reached(self, ends: Mapping[Partition, int]) -> bool:
        next_offsets = self._consumer.positions.next_offsets if self._consumer else ends
        return all(next_offsets.get(partition, 0) >= end for partition, end in ends.items())

    def start(self) -> None:
        for component in (self._consumer, self._table_replica):
            if component:
                component.start()

    async def stop(self) -> None:
        for component in (self._consumer, self._table_replica):
            if component:
                component.stop()


def _consumer_problems(consumer: TailingConsumer) -> list[str]:
    if consumer.state is ConsumerState.FAILED:
        return [f"the store no longer reads its changelogs: {consumer.error}"]
    if consumer.is_caught_up:
        return []
    return [consumer.error or f"the store has {consumer.positions.remaining_count} records of its changelogs to read"]


def tune_for_latency() -> None:
    """Reduce latency of requests and scores: threads switch quickly, and garbage collection is rare."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(GC_THRESHOLD)


def split_batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Batches small enough that other requests do not wait."""
    return (items[start : start + READ_BATCH_SIZE] for start in range(0, len(items), READ_BATCH_SIZE))
