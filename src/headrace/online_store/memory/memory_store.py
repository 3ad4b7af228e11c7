"""The online table in this process's memory, fed by the changelogs."""

import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from threading import Lock
from typing import TypeVar

from headrace.declare.features.view import View
from headrace.declare.metric_catalog import APPLY_SECONDS_BUCKETS
from headrace.declare.streams.stream import Stream
from headrace.kafka.record import ConsumerRecord
from headrace.online_store.changelog import ChangelogDecoder, TileChange
from headrace.online_store.delay_histogram import DelayHistogram
from headrace.online_store.feature_lookup import (
    CachedLookup,
    EventRef,
    IncludedEvent,
    LookupResult,
    TileRowsReader,
    require_retained,
    retention_slack_us,
)
from headrace.tiles.online.tile_rows import TileRows
from headrace.tiles.tile import Entity

SAMPLE_SIZE = 64
ENTITY_OVERHEAD_BYTES = 400  # the dict entry, the key and its text, the list of hops, the entry in the expiry queue
MAX_CACHED_READS = 100_000

Answer = TypeVar("Answer")


class EntityTileState:
    """The tiles of one entity by part, stream and hop, those of history last, and their cached result.

    `sequence` is odd while a tile is being changed (a sequence lock), so a result is only read from unchanged tiles.
    """

    __slots__ = ("cached_read", "rows_by_hop", "sequence")

    def __init__(self, live_layout_count: int) -> None:
        self.rows_by_hop: list[TileRows | None] = [None] * live_layout_count
        self.sequence = 0
        self.cached_read: tuple[int, CachedLookup] | None = None


class MemoryStore:
    """The tables of an app's views: one thread applies, any thread reads."""

    # Almost no lock is needed here. A dict's lookup, insertion and deletion are atomic under the interpreter's lock; a
    # hop's entry in an entity's list changes once, from None to its rows, and the list itself to one with room for more
    # parts; rows lock themselves; a result and its sequence number are one tuple. A reader that still holds an entity
    # just removed reads tiles that are in no window any more. So reads are monotonic. Only a reader whose tiles changed
    # during the read blocks the applying thread, and reads again.

    def __init__(self, views: Sequence[View], max_cached_reads: int = MAX_CACHED_READS) -> None:
        self.tables = {view.name: ViewTable(view, max_cached_reads) for view in views}
        self.version = 0  # incremented with each batch of tiles
        self._version_changed = threading.Condition()
        self._tables_by_topic = {view.topic: self.tables[view.name] for view in views}

    def apply(self, records: Iterable[ConsumerRecord], *, measure: bool = False) -> None:
        """Apply the tiles of changelog records, in any order and any number of times; measure their delay."""
        for record in records:
            self._tables_by_topic[record.topic].apply(record, measure)
        with self._version_changed:
            self.version += 1
            self._version_changed.notify_all()

    def wait_for_change(self, seen_version: int | None, seconds: float) -> None:
        """Wait until tiles have been applied since a version, up to a timeout."""
        with self._version_changed:
            self._version_changed.wait_for(lambda: self.version != seen_version, seconds)

    def read(self, view_name: str, entities: Sequence[Entity], at_us: int) -> list[LookupResult]:
        """One result per entity, in their order."""
        table = self.tables[view_name]
        return [table.read(entity, at_us) for entity in entities]

    def read_including(self, view_name: str, events: Sequence[IncludedEvent], at_us: int) -> list[LookupResult]:
        """One result per event, in their order, each as if only it were already stored."""
        table = self.tables[view_name]
        return [table.read_including(event, at_us) for event in events]

    def is_applied(self, view_name: str, events: Sequence[EventRef]) -> list[bool]:
        """For each event, whether its tiles include an event that arrived when it did, or later."""
        table = self.tables[view_name]
        return [table.is_applied(event) for event in events]


class ViewTable:
    """The tiles of one view.

    Its clock is the greatest event time so far: tiles that are in no window at that time expire, and entities without
    tiles. Each new tile triggers a check of one entity in turn, so expiry never pauses the store.
    """

    def __init__(self, view: View, max_cached_reads: int) -> None:
        self.newest_time_us = 0
        self.tile_count = 0
        self.delays = DelayHistogram(APPLY_SECONDS_BUCKETS)
        self._decoder = ChangelogDecoder(view)
        self._event_counts = [0] * len(self._decoder.layouts)
        self._newest_arrivals_us = [0] * len(self._decoder.layouts)
        self._reader = TileRowsReader(view)
        self._hop_count, self._live_layout_count = self._reader.hop_count, self._reader.live_layout_count
        self._slack_us = retention_slack_us(view)
        self._states: dict[Entity, EntityTileState] = {}
        self._cached_states: OrderedDict[Entity, EntityTileState] = OrderedDict()
        self._max_cached_reads = max_cached_reads
        self._expiry_queue: deque[Entity] = deque()
        self._write_lock = Lock()

    def __len__(self) -> int:
        return len(self._states)

    def entities(self) -> list[Entity]:
        """Every entity that has tiles now."""
        return list(self._states)  # one step of C code: atomic

    @property
    def rejected_count(self) -> int:
        """How many records of the changelog were invalid."""
        return self._decoder.rejected_count

    @property
    def event_count(self) -> int:
        """How many events the tiles of the store include, expired tiles counted; every hop includes each event."""
        return sum(self._event_counts[self._longest_hop :: self._hop_count])

    def stream_event_count(self, stream: Stream) -> int:
        """The number of events of one stream."""
        first_index = self._longest_hop + self._hop_count * self._decoder.view.sorted_streams.index(stream)
        return sum(self._event_counts[first_index :: self._live_layout_count])

    def newest_arrival_us(self, stream: Stream) -> int:
        """The arrival of the newest event of a stream in a live tile; 0 without any."""
        first_index = self._hop_count * self._decoder.view.sorted_streams.index(stream)
        return max(self._newest_arrivals_us[first_index : first_index + self._hop_count])

    @property
    def _longest_hop(self) -> int:
        """The hop with the longest retention: an expired tile that is applied again counts again."""
        return max(range(self._hop_count), key=lambda hop: self._decoder.layouts[hop].retention_us)

    @property
    def size_bytes(self) -> int:
        """An estimate, from the entities that are checked next."""
        # Copied in one step of C code: the deque cannot change meanwhile.
        sample = list(islice(self._expiry_queue, SAMPLE_SIZE))
        sizes = [_estimate_bytes(state.rows_by_hop) for state in map(self._states.get, sample) if state is not None]
        return len(self) * sum(sizes) // len(sizes) if sizes else 0

    def read(self, entity: Entity, at_us: int) -> LookupResult:
        require_retained(at_us, self.newest_time_us, self._slack_us)
        state = self._states.get(entity)
        if state is None:
            return self._reader.read(None, at_us)
        cached_read = state.cached_read
        if cached_read is not None and cached_read[0] == state.sequence and cached_read[1].is_valid_at(at_us):
            return cached_read[1].result
        return self._read_and_cache(entity, state, at_us)

    def read_including(self, event: IncludedEvent, at_us: int) -> LookupResult:
        require_retained(at_us, self.newest_time_us, self._slack_us)
        state = self._states.get(event.entity) or EntityTileState(self._live_layout_count)
        return self._read_consistently(state, lambda: self._reader.read_including(state.rows_by_hop, event, at_us))[1]

    def is_applied(self, event: EventRef) -> bool:
        state = self._states.get(event.entity)
        return self._reader.is_applied(state.rows_by_hop if state else [None] * self._live_layout_count, event)

    def _read_and_cache(self, entity: Entity, state: EntityTileState, at_us: int) -> LookupResult:
        sequence, cached_lookup = self._read_consistently(
            state, lambda: self._reader.read_with_validity(state.rows_by_hop, at_us)
        )
        state.cached_read = sequence, cached_lookup
        self._cached_states[entity] = state
        if len(self._cached_states) > self._max_cached_reads:
            self._cached_states.popitem(last=False)[1].cached_read = None
        return cached_lookup.result

    def _read_consistently(self, state: EntityTileState, read: Callable[[], Answer]) -> tuple[int, Answer]:
        """A consistent read: the sequence number of an entity, and the result from its tiles at that number.

        ├─ read ─┤ no change meanwhile       ├─ re─█d ─┤├─ read, changes are locked out ─┤
        """
        sequence = state.sequence
        answer = read()
        if sequence % 2 == 0 and sequence == state.sequence:
            return sequence, answer
        with self._write_lock:
            return state.sequence, read()

    def apply(self, record: ConsumerRecord, measure: bool = False) -> TileChange | None:
        """Apply one tile, unless the stored one has as many events; returns the change, None for an invalid record."""
        change = self._decoder.decode(record)
        if change is None:
            return None
        state = self._get_or_create_state(change.entity)
        rows = self._get_or_create_rows(state, change.layout_index)
        row_count = len(rows)
        with self._write_lock:
            state.sequence += 1
            added_events = rows.apply(change.tile)
            state.sequence += 1
        self._event_counts[change.layout_index] += added_events
        if measure and added_events and not change.layout.part.is_base:  # backfilled tiles have no meaningful delay
            self.delays.add(time.time() - change.arrival_us / 1e6)
        self._newest_arrivals_us[change.layout_index] = max(
            self._newest_arrivals_us[change.layout_index], change.arrival_us
        )
        self.newest_time_us = max(self.newest_time_us, change.clamped_time_us)
        if len(rows) > row_count:
            self.tile_count += 1
            self._expire_next_entity()
        return change

    def _get_or_create_state(self, entity: Entity) -> EntityTileState:
        state = self._states.get(entity)
        if state is None:
            state = self._states[entity] = EntityTileState(self._live_layout_count)
            self._expiry_queue.append(entity)
        return state

    def _get_or_create_rows(self, state: EntityTileState, layout_index: int) -> TileRows:
        if layout_index >= len(state.rows_by_hop):
            part_count = layout_index // self._live_layout_count + 1
            state.rows_by_hop = [
                *state.rows_by_hop,
                *[None] * (part_count * self._live_layout_count - len(state.rows_by_hop)),
            ]
        rows = state.rows_by_hop[layout_index]
        if rows is None:
            rows = state.rows_by_hop[layout_index] = TileRows(self._decoder.layouts[layout_index])
        return rows

    def _expire_next_entity(self) -> None:
        entity = self._expiry_queue.popleft()
        state = self._states[entity]
        with self._write_lock:
            state.sequence += 1
            self.tile_count -= sum(self._expire_tiles(rows) for rows in state.rows_by_hop if rows is not None)
            state.sequence += 1
        if any(state.rows_by_hop):
            self._expiry_queue.append(entity)
        else:
            del self._states[entity]

    def _expire_tiles(self, rows: TileRows) -> int:
        # A window at `now` has the tiles that start after now − retention.
        return rows.expire(self.newest_time_us - rows.layout.retention_us - self._slack_us + 1)


def _estimate_bytes(rows_by_hop: Sequence[TileRows | None]) -> int:
    rows = [rows for rows in rows_by_hop if rows is not None]
    objects = [value for tile_rows in rows for row_objects in tile_rows.objects or () for value in row_objects]
    return (
        ENTITY_OVERHEAD_BYTES
        + sum(sys.getsizeof(tile_rows.buffer) for tile_rows in rows)
        + sum(map(sys.getsizeof, objects))
    )
