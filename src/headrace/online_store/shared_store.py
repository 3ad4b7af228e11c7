"""The online table in a server that processes share: the logic common to all of them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from headrace.aggregates.partial import INT64_MAX, INT64_MIN
from headrace.declare.features.view import View
from headrace.kafka.record import ConsumerRecord, Partition
from headrace.online_store.bounded_cache import BoundedCache
from headrace.online_store.entity_changes import EntityChanges, EntityChangesBuilder
from headrace.online_store.feature_lookup import (
    EXPIRY_GRACE_US,
    CachedLookup,
    EventRef,
    IncludedEvent,
    LookupResult,
    TileRowsReader,
    TooManyEntitiesError,
    require_retained,
    retention_slack_us,
)
from headrace.online_store.sorted_rows import HopRange
from headrace.online_store.tile_packing import CHANGED_AT_FIELD, HashFields, TileUnpacker, hash_key, parse_hash_key
from headrace.tiles.layout import all_layouts
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import Entity

MAX_CACHED_ENTITIES = 20_000


class StoreHealth(NamedTuple):
    """The health of a store's server as text, and the remedy for a problem."""

    state: str
    remedy: str = ""


class SharedStore(ABC):
    """The tables of an app's views: apply workers write them, servers read them.

    A server may come back empty, so it also stores the changelog offsets of each consumer group: a group with a missing
    offset starts again at the beginning. If the server cannot answer, StoreUnavailable is raised.
    """

    def __init__(self, url: str, views: Sequence[View], max_cached_entities: int = MAX_CACHED_ENTITIES) -> None:
        self.url = url
        self._change_builders = {view.topic: EntityChangesBuilder(view) for view in views}
        self._readers = {view.name: _CachedViewReader(view, max_cached_entities) for view in views}

    @classmethod
    def open_for_reading(cls, url: str, views: Sequence[View]) -> Self:
        """The store as servers and scorers read it."""
        return cls(url, views)

    @classmethod
    @abstractmethod
    def check_health(cls, url: str, timeout_s: float) -> StoreHealth:
        """Whether the server that a URL names can be used, as `headrace doctor` says it; raises nothing."""

    async def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[LookupResult]:
        """One result per entity, in their order."""
        return [cached_entity.lookup.result for cached_entity in await self._read_entities(view_name, entities, at_us)]

    async def read_including(self, view_name: str, events: Sequence[IncludedEvent], at_us: int) -> list[LookupResult]:
        """One result per event, in their order, each as if only it were already stored."""
        reader = self._readers[view_name]
        cached_entities = await self._read_entities(view_name, [event.entity for event in events], at_us)
        return [
            reader.read_including(cached_entity, one, at_us)
            for cached_entity, one in zip(cached_entities, events, strict=True)
        ]

    async def is_applied(self, view_name: str, events: Sequence[EventRef]) -> list[bool]:
        """For each event, whether its tiles include an event that arrived when it did, or later."""
        reader = self._readers[view_name]
        since_us = min((event.event_time_us for event in events), default=0)
        fetched_entities = await self._fetch_entities(view_name, [one.entity for one in events], since_us)
        return [reader.is_applied(*fetched, one) for fetched, one in zip(fetched_entities, events, strict=True)]

    async def entities(self, view_name: str, max_entities: int) -> list[Entity]:
        """Every entity of a view; raises TooManyEntitiesError if there are more than `max_entities`."""
        keys = await self._list_keys(view_name, max_entities)
        entities = {entity for key in keys if (entity := parse_hash_key(view_name, key)) is not None}
        if len(entities) > max_entities:
            raise TooManyEntitiesError(view_name, f"more than {max_entities:,}", max_entities)
        return list(entities)

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        """Apply the tiles of changelog records, in any order and any number of times."""
        self._write_changes(
            [
                entity_changes
                for topic, topic_records in _group_by_topic(records)
                for entity_changes in self._change_builders[topic].build(topic_records)
            ]
        )

    @abstractmethod
    async def read_offsets(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        """The next offset of each partition that a group has started."""

    @abstractmethod
    def commit_offsets(
        self, group: str, offsets: Mapping[Partition, int], starting: Collection[Partition]
    ) -> set[Partition]:
        """Store the offsets of a group; returns the partitions whose applied tiles the server has lost.

        `starting` are the partitions that are read from their start: they have no stored offset yet.
        """

    @abstractmethod
    def find_lost_partitions(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        """The partitions for which the server has no offset of this group."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections for reading and writing."""

    @abstractmethod
    def _write_changes(self, changes: Sequence[EntityChanges]) -> None:
        """Write each tile that has more events than the stored one."""

    @abstractmethod
    async def _list_keys(self, view_name: str, max_keys: int) -> Collection[bytes]:
        """The keys of a view's entities; may stop once there are more than `max_keys`."""

    @abstractmethod
    async def _read_changed(self, request: "ChangedEntitiesRequest") -> list[HashFields | None]:
        """The fields of each known entity, or None if it has not changed since."""

    async def _read_entities(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list["_CachedEntity"]:
        """The stored rows of each entity, with its result at a time."""
        reader = self._readers[view_name]
        return [reader.read(*fetched, at_us) for fetched in await self._fetch_entities(view_name, entities, at_us)]

    async def _fetch_entities(
        self, view_name: str, entities: Sequence[Entity], since_us: int
    ) -> list[tuple[bytes, "_CachedEntity", HashFields | None]]:
        """For each entity its key, its cached rows, and its fields if they have changed.

        Only tiles for windows that end at a time or later are needed.
        """
        reader = self._readers[view_name]
        keys = [hash_key(view_name, entity) for entity in entities]
        cached_entities = [reader.get_cached(key) for key in keys]
        known_changes = [
            (key, cached_entity.changed_at) for key, cached_entity in zip(keys, cached_entities, strict=True)
        ]
        changed_fields = await self._read_changed(ChangedEntitiesRequest(known_changes, reader, since_us))
        return list(zip(keys, cached_entities, changed_fields, strict=True))


class ChangedEntitiesRequest(NamedTuple):
    """Entities of a view as (key, last known change), and the time since when windows end."""

    known_changes: Sequence[tuple[bytes, bytes]]
    reader: "_CachedViewReader"
    since_us: int

    @property
    def hop_ranges(self) -> list[HopRange]:
        """The tiles in these windows, for stores that sort them."""
        return self.reader.hop_ranges(self.since_us)


class _NewestEvent(NamedTuple):
    """The newest event time of an entity, by which its older tiles expired, and the arrival of that event."""

    event_time_us: int
    arrival_us: int

    def estimate_event_time_us(self, now_us: int) -> int:
        """The event time of now, if it has advanced with the clock since the last event."""
        return self.event_time_us + max(0, now_us - self.arrival_us)


class _CachedEntity(NamedTuple):
    """The rows of an entity from the server, and their last result."""

    changed_at: bytes
    newest: "_NewestEvent"
    rows_by_hop: Sequence[TileRows | None]
    lookup: CachedLookup


NO_LOOKUP = CachedLookup(0, 0, LookupResult([], None, None, ()))  # never valid
EMPTY_ENTITY = _CachedEntity(b"", _NewestEvent(0, 0), (), NO_LOOKUP)


class _CachedViewReader:
    """Reads one view from entities' hashes, and caches the rows of those that were read last.

    Every read queries the server; an unchanged hash is not sent again.
    """

    def __init__(self, view: View, max_cached_entities: int) -> None:
        self._reader, self._slack_us = TileRowsReader(view), retention_slack_us(view)
        self._is_recorded = any(stream.is_recorded for stream in view.streams)
        self._unpacker = TileUnpacker(all_layouts(view))
        self._cache: BoundedCache[bytes, _CachedEntity] = BoundedCache(max_cached_entities)

    def hop_ranges(self, since_us: int) -> list[HopRange]:
        """The tiles of windows that end at a time or later."""
        return [
            HopRange(layout.hop_us, INT64_MIN if layout.is_kept_forever else since_us - layout.retention_us)
            for layout in self._reader.layouts
        ]

    def get_cached(self, key: bytes) -> _CachedEntity:
        """The cached rows of a hash."""
        return self._cache.get(key, EMPTY_ENTITY)

    def read(self, key: bytes, cached_entity: _CachedEntity, fields: HashFields | None, at_us: int) -> _CachedEntity:
        """The result from a hash's fields at a time or, if they are None, from its cached rows."""
        current = cached_entity if fields is None else self._decode_and_cache(key, fields)
        self._require_retained(current.newest, at_us)
        if current.lookup.is_valid_at(at_us):
            return current
        return self._store_in_cache(
            key, current._replace(lookup=self._reader.read_with_validity(current.rows_by_hop, at_us))
        )

    def _require_retained(self, newest: _NewestEvent, at_us: int) -> None:
        """Refuse a time whose tiles may have expired: removed for newer ones, or by the server's clock."""
        require_retained(at_us, newest.event_time_us, self._slack_us)
        if newest.arrival_us and not self._is_recorded:
            require_retained(at_us, newest.estimate_event_time_us(current_time_us()), self._slack_us + EXPIRY_GRACE_US)

    def read_including(self, cached_entity: _CachedEntity, event: IncludedEvent, at_us: int) -> LookupResult:
        """The result as if an event were already in the hash."""
        return self._reader.read_including(cached_entity.rows_by_hop, event, at_us)

    def is_applied(self, key: bytes, cached_entity: _CachedEntity, fields: HashFields | None, event: EventRef) -> bool:
        """Whether the tiles of a hash include an event, or a later one."""
        current = cached_entity if fields is None else self._decode_and_cache(key, fields)
        return self._reader.is_applied(current.rows_by_hop or [None] * self._reader.live_layout_count, event)

    def _decode_and_cache(self, key: bytes, fields: HashFields) -> _CachedEntity:
        rows_by_hop = self._unpacker.unpack_rows(fields)
        return self._store_in_cache(
            key, _CachedEntity(fields.get(CHANGED_AT_FIELD, b""), _newest_event(rows_by_hop), rows_by_hop, NO_LOOKUP)
        )

    def _store_in_cache(self, key: bytes, cached_entity: _CachedEntity) -> _CachedEntity:
        if cached_entity.changed_at:
            self._cache[key] = cached_entity
        return cached_entity


def current_time_us() -> int:
    """The clock of this machine."""
    return time.time_ns() // 1000


def _newest_event(rows_by_hop: Sequence[TileRows | None]) -> _NewestEvent:
    newest_times = [rows.newest_times(INT64_MIN, INT64_MAX) for rows in rows_by_hop if rows is not None]
    newest_events = (
        _NewestEvent(min(event_us, arrival_us), arrival_us) for event_us, arrival_us in filter(None, newest_times)
    )
    return max(newest_events, default=_NewestEvent(0, 0))


def _group_by_topic(records: Iterable[ConsumerRecord]) -> Iterator[tuple[str, list[ConsumerRecord]]]:
    records_by_topic: dict[str, list[ConsumerRecord]] = {}
    for record in records:
        records_by_topic.setdefault(record.topic, []).append(record)
    return iter(records_by_topic.items())
