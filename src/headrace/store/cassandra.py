"""The online table in Cassandra: one row a tile, written at the time that its start and its events make.

    key       the entity of a view         │  a group of workers in a topic
    field     hop, start, layout of a tile │  a partition
    value     as in Redis                  │  the next offset, 8 bytes

Of two writes Cassandra keeps the one with the later timestamp. A tile's is its start plus, in µs, its number of events:
the greater wins in whatever order they come, and timestamps grow as time does, by which Cassandra can forget.
"""

import asyncio
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from cassandra import InvalidRequest
from cassandra.concurrent import execute_concurrent_with_args

from headrace.declare.views import View
from headrace.log.records import Partition
from headrace.store.cassandra_link import GONE, Link, Prepared, answered
from headrace.store.entries import Entry
from headrace.store.packing import Fields, hash_prefix
from headrace.store.reads import StoreUnavailable
from headrace.store.rows import Row, fields_of, pack_number, places_key, unpack_number
from headrace.store.shared import Asked, SharedStore

AT_ONCE = 128
KEYS, KEYS_AT_MOST = "SELECT DISTINCT key FROM headrace_tiles", 200_000
LONGEST_S = 20 * 365 * 86_400  # what Cassandra keeps at most, if not for ever
ALL = (b"", b"\xff" * 32)
_OFFSET = struct.Struct(">q")

Answer = TypeVar("Answer")


class CassandraUnavailable(StoreUnavailable):
    """Cassandra does not answer, or does not take what it is given."""

    def __init__(self, link: Link, failure: BaseException) -> None:
        super().__init__(
            f"The Cassandra store at {link.place} does not answer: {str(failure) or type(failure).__name__}. Start it, "
            f"create the keyspace {link.keyspace!r}, and let `headrace run APP apply` make its table."
        )


class TooManyKeys(StoreUnavailable):
    """A table with so many entities of all views that those of one cannot be listed soon enough."""

    def __init__(self) -> None:
        super().__init__(
            f"The Cassandra store has more than {KEYS_AT_MOST:,} entities, and those of one view are among them. "
            "Ask POST /features by key, or silver and gold by SQL."
        )


class CassandraStore(SharedStore):
    """Tables in one table of the keyspace that `cassandra://HOST:PORT/KEYSPACE` names."""

    def __init__(self, url: str, views: Sequence[View]) -> None:
        super().__init__(views)
        self._link = Link(url)

    async def places(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        found = await self._read([(places_key(group, topic), *ALL) for topic in topics])
        return dict(_places(topics, found))

    def keep_places(
        self, group: str, places: Mapping[Partition, int], beginning: Collection[Partition]
    ) -> set[Partition]:
        rows = {
            one: (_OFFSET.pack(offset), places_key(group, one.topic), pack_number(one.number))
            for one, offset in places.items()
        }

        def move(link: Prepared) -> set[Partition]:
            new = [(key, field, value) for one, (value, key, field) in rows.items() if one in beginning]
            _each(link, link.begin, new)
            moved = _each(link, link.move, list(rows.values()))
            return {one for one, ((was_there, *_),) in zip(rows, moved, strict=True) if not was_there}

        return self._done(move)

    def lost_places(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        topics = sorted({one.topic for one in partitions})

        def kept(link: Prepared) -> set[Partition]:
            found = _each(link, link.select, [(places_key(group, topic), *ALL) for topic in topics])
            return {one for one, _ in _places(topics, found)}

        return set(partitions) - self._done(kept)

    async def close(self) -> None:
        await asyncio.to_thread(self._link.close)

    def _write(self, entries: Sequence[Entry]) -> None:
        rows = [_values(row) for entry in entries for row in entry.rows()]
        self._done(lambda link: _each(link, link.insert, rows))

    async def _keys(self, view_name: str, most: int) -> set[bytes]:
        """By a look through all keys: Cassandra keeps them by their hashes, in no order of ours."""
        prefix = hash_prefix(view_name)

        def look(link: Prepared) -> set[bytes]:
            found: set[bytes] = set()
            for seen, (key,) in enumerate(link.session.execute(KEYS)):
                if key.startswith(prefix):
                    found.add(key)
                if len(found) > most:
                    break
                if seen > KEYS_AT_MOST:
                    raise TooManyKeys
            return found

        return await asyncio.to_thread(self._done, look)

    async def _changed(self, asked: Asked) -> list[Fields | None]:
        """Read anew each time: Cassandra keeps no word of when an entity last changed."""
        spans = asked.spans
        rows = await self._read([(key, *span.bounds) for key, _ in asked.known for span in spans])
        return [fields_of(chain(*rows[first : first + len(spans)])) for first in range(0, len(rows), len(spans))]

    async def _read(self, spans: Sequence[tuple[bytes, bytes, bytes]]) -> list[list[Any]]:
        """The rows of each key between two fields, many asked for at once; each of these has its second."""
        link, rows = self._link.ready, list[list[Any]]()
        try:
            if link is None:
                link = await asyncio.to_thread(self._link.prepared)
            for first in range(0, len(spans), AT_ONCE):
                asked = spans[first : first + AT_ONCE]
                rows += await asyncio.gather(*(answered(link, link.select, span) for span in asked))
        except GONE as failure:
            await asyncio.to_thread(self._link.drop_after, failure, link)
            raise CassandraUnavailable(self._link, failure) from failure
        return rows

    def _done(self, work: Callable[[Prepared], Answer]) -> Answer:
        """Do some work; where the table is missing, make it first."""
        try:
            try:
                return self._tried(work)
            except InvalidRequest:
                return self._tried(work)
        except GONE as failure:
            raise CassandraUnavailable(self._link, failure) from failure

    def _tried(self, work: Callable[[Prepared], Answer]) -> Answer:
        link = self._link.ready
        try:
            link = self._link.prepared(is_writer=True)
            return work(link)
        except GONE as failure:
            self._link.drop_after(failure, link)
            raise


def _each(link: Prepared, statement: Any, rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The answers to one statement with the values of each row, many at once."""
    found = execute_concurrent_with_args(link.session, statement, rows, AT_ONCE)
    return [list(rows) for _, rows in found]


def _values(row: Row) -> tuple[bytes, bytes, bytes, int, int]:
    keep_s = row.keep_s if row.keep_s <= LONGEST_S else 0
    return row.key, row.sort_key, row.value, row.start_us + row.n, keep_s


def _places(topics: Sequence[str], found: Sequence[Sequence[Any]]) -> Iterator[tuple[Partition, int]]:
    for topic, rows in zip(topics, found, strict=True):
        for field, value in rows:
            yield Partition(topic, unpack_number(field)), _OFFSET.unpack(value)[0]
