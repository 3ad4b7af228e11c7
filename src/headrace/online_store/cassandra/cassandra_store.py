"""The online table in Cassandra: one row per tile, written with a timestamp from its start and its event count.

    key       the entity of a view         │  a group of workers in a topic
    field     hop, start, layout of a tile │  a partition
    value     as in Redis                  │  the next offset, 8 bytes

Of two writes Cassandra keeps the one with the later timestamp. A tile's is its start plus, in µs, its number of events:
the greater wins in any order of writes, and timestamps grow with time, which Cassandra's expiry relies on.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cassandra import InvalidRequest
from cassandra.concurrent import execute_concurrent_with_args

from headrace.declare.features.view import View
from headrace.kafka.record import Partition
from headrace.online_store.cassandra.cassandra_session import (
    CONNECTION_ERRORS,
    DEFAULT_PORT,
    CassandraConnection,
    PreparedSession,
    execute_async,
)
from headrace.online_store.entity_changes import EntityChanges
from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.online_store.shared_store import ChangedEntitiesRequest, SharedStore, StoreHealth
from headrace.online_store.sorted_rows import (
    SortedTileRow,
    offsets_key,
    pack_partition,
    to_hash_fields,
    unpack_partition,
)
from headrace.online_store.tile_packing import HashFields, hash_prefix

MAX_CONCURRENT_STATEMENTS = 128
SELECT_KEYS, MAX_SCANNED_KEYS = "SELECT DISTINCT key FROM headrace_tiles", 200_000
MAX_TTL_S = 20 * 365 * 86_400  # Cassandra's maximum TTL
ALL_FIELDS = (b"", b"\xff" * 32)
_OFFSET = struct.Struct(">q")

Answer = TypeVar("Answer")


class CassandraUnavailable(StoreUnavailable):
    """Cassandra does not answer, or rejects a request."""

    def __init__(self, connection: CassandraConnection, failure: BaseException) -> None:
        super().__init__(
            f"The Cassandra store at {connection.address} does not answer: {str(failure) or type(failure).__name__}. "
            f"Start it, "
            f"create the keyspace {connection.keyspace!r}, and let `headrace run APP apply` create its table."
        )


class CassandraTooManyKeysError(StoreUnavailable):
    """A table has so many entities of all views that those of one cannot be listed in time."""

    def __init__(self) -> None:
        super().__init__(
            f"The Cassandra store has more than {MAX_SCANNED_KEYS:,} entities, and those of one view are among them. "
            "Ask POST /features by key, or silver and gold by SQL."
        )


class CassandraStore(SharedStore):
    """Tables in one table of the keyspace that `cassandra://HOST:PORT/KEYSPACE` names."""

    def __init__(self, url: str, views: Sequence[View]) -> None:
        super().__init__(url, views)
        self._connection = CassandraConnection(url)

    @classmethod
    def check_health(cls, url: str, timeout_s: float) -> StoreHealth:
        parts = urlsplit(url)
        for host in (parts.hostname or "").split(","):
            with suppress(OSError), socket.create_connection((host, parts.port or DEFAULT_PORT), timeout_s):
                return StoreHealth("accepts connections")
        return StoreHealth("does not answer", "start it, or use --store memory")

    async def read_offsets(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        rows_by_topic = await self._read_ranges([(offsets_key(group, topic), *ALL_FIELDS) for topic in topics])
        return dict(_parse_offsets(topics, rows_by_topic))

    def commit_offsets(
        self, group: str, offsets: Mapping[Partition, int], starting: Collection[Partition]
    ) -> set[Partition]:
        rows = {
            partition: (_OFFSET.pack(offset), offsets_key(group, partition.topic), pack_partition(partition.number))
            for partition, offset in offsets.items()
        }

        def write_offsets(session: PreparedSession) -> set[Partition]:
            start_rows = [
                (key, field, value) for partition, (value, key, field) in rows.items() if partition in starting
            ]
            _execute_many(session, session.insert_offset, start_rows)
            results = _execute_many(session, session.update_offset, list(rows.values()))
            return {one for one, ((was_applied, *_),) in zip(rows, results, strict=True) if not was_applied}

        return self._execute(write_offsets)

    def find_lost_partitions(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        topics = sorted({partition.topic for partition in partitions})

        def read_committed(session: PreparedSession) -> set[Partition]:
            rows_by_topic = _execute_many(
                session, session.select_rows, [(offsets_key(group, topic), *ALL_FIELDS) for topic in topics]
            )
            return {partition for partition, _ in _parse_offsets(topics, rows_by_topic)}

        return set(partitions) - self._execute(read_committed)

    async def close(self) -> None:
        await asyncio.to_thread(self._connection.close)

    def _write_changes(self, changes: Sequence[EntityChanges]) -> None:
        rows = [_insert_values(row) for entity_changes in changes for row in entity_changes.sorted_rows()]
        self._execute(lambda session: _execute_many(session, session.insert_tile, rows))

    async def _list_keys(self, view_name: str, max_keys: int) -> set[bytes]:
        """Scan all keys: Cassandra sorts them by hash, so a prefix cannot be looked up."""
        prefix = hash_prefix(view_name)

        def scan_keys(session: PreparedSession) -> set[bytes]:
            keys: set[bytes] = set()
            for scanned_count, (key,) in enumerate(session.session.execute(SELECT_KEYS)):
                if key.startswith(prefix):
                    keys.add(key)
                if len(keys) > max_keys:
                    break
                if scanned_count > MAX_SCANNED_KEYS:
                    raise CassandraTooManyKeysError
            return keys

        return await asyncio.to_thread(self._execute, scan_keys)

    async def _read_changed(self, request: ChangedEntitiesRequest) -> list[HashFields | None]:
        """Read every time: Cassandra has no change time of an entity."""
        ranges = request.hop_ranges
        rows = await self._read_ranges(
            [(key, *hop_range.key_bounds) for key, _ in request.known_changes for hop_range in ranges]
        )
        return [to_hash_fields(chain(*rows[start : start + len(ranges)])) for start in range(0, len(rows), len(ranges))]

    async def _read_ranges(self, key_ranges: Sequence[tuple[bytes, bytes, bytes]]) -> list[list[Any]]:
        """The rows of each key between two fields, concurrently; each request has its own timeout."""
        session, rows = self._connection.prepared_session, list[list[Any]]()
        try:
            if session is None:
                session = await asyncio.to_thread(self._connection.ensure_connected)
            for start in range(0, len(key_ranges), MAX_CONCURRENT_STATEMENTS):
                batch = key_ranges[start : start + MAX_CONCURRENT_STATEMENTS]
                rows += await asyncio.gather(
                    *(execute_async(session, session.select_rows, key_range) for key_range in batch)
                )
        except CONNECTION_ERRORS as failure:
            await asyncio.to_thread(self._connection.drop_broken, failure, session)
            raise CassandraUnavailable(self._connection, failure) from failure
        return rows

    def _execute(self, work: Callable[[PreparedSession], Answer]) -> Answer:
        """Run an operation; create the table first if it is missing."""
        try:
            try:
                return self._execute_once(work)
            except InvalidRequest:
                return self._execute_once(work)
        except CONNECTION_ERRORS as failure:
            raise CassandraUnavailable(self._connection, failure) from failure

    def _execute_once(self, work: Callable[[PreparedSession], Answer]) -> Answer:
        session = self._connection.prepared_session
        try:
            session = self._connection.ensure_connected(is_writer=True)
            return work(session)
        except CONNECTION_ERRORS as failure:
            self._connection.drop_broken(failure, session)
            raise


def _execute_many(session: PreparedSession, statement: Any, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The results of one statement for each row of values, concurrently."""
    results = execute_concurrent_with_args(session.session, statement, rows, MAX_CONCURRENT_STATEMENTS)
    return [list(rows) for _, rows in results]


def _insert_values(row: SortedTileRow) -> tuple[bytes, bytes, bytes, int, int]:
    ttl_s = row.ttl_s if row.ttl_s <= MAX_TTL_S else 0
    return row.key, row.sort_key, row.value, row.start_us + row.event_count, ttl_s


def _parse_offsets(topics: Sequence[str], rows_by_topic: Sequence[Sequence[Any]]) -> Iterator[tuple[Partition, int]]:
    for topic, rows in zip(topics, rows_by_topic, strict=True):
        for field, value in rows:
            yield Partition(topic, unpack_partition(field)), _OFFSET.unpack(value)[0]
