"""Reading hashes from Redis in an event loop, and what is said when it does not answer.

    a hash nobody holds     HGETALL
    one that is held        HGET of when it last changed ──▶ HGETALL, only where it has

A script could do both in one step, and would cost Redis several times as much for the many that have not changed.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.online_store.redis.script_writer import is_cluster, server_url
from headrace.online_store.tile_packing import CHANGED_AT_FIELD, HashFields

READ_SECONDS = 1.0
MAX_SCAN_SECONDS = 3.0  # through the keys of a server that may hold others' as well
SCAN_BATCH_SIZE = 1_000

RedisCommand = tuple[bytes | str | int, ...]


class RedisUnavailable(StoreUnavailable):
    """Redis does not answer, or does not take what it is given."""

    def __init__(self, url: str, failure: BaseException) -> None:
        super().__init__(
            f"The Redis store at {redis_address(url)} does not answer: {str(failure) or type(failure).__name__}. "
            "Start it, or give the address of one that runs with --store redis://HOST:PORT."
        )


class RedisTooManyKeysError(StoreUnavailable):
    """A Redis with so many keys that the entities of a view cannot be told from the others soon enough."""

    def __init__(self) -> None:
        super().__init__(
            f"The Redis store has too many keys to find the entities of a view within {MAX_SCAN_SECONDS:g} s. "
            "Ask POST /features by key, or silver and gold by SQL."
        )


class HashReader(ABC):
    """Reads whole hashes, by whatever asks Redis some commands at once."""

    @abstractmethod
    async def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """The answers to commands, in their order."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    async def scan_keys(self, prefix: bytes, max_keys: int) -> set[bytes]:
        """The keys that begin so, as far as they are looked for: one more than so many is enough."""
        matching_keys, cursor, deadline = set[bytes](), b"0", time.monotonic() + MAX_SCAN_SECONDS
        while True:
            command: RedisCommand = (b"SCAN", cursor, b"MATCH", _match_pattern(prefix), b"COUNT", SCAN_BATCH_SIZE)
            ((cursor, keys),) = await self.execute([command])
            matching_keys.update(keys)
            cursor = cursor if isinstance(cursor, bytes) else str(cursor).encode()
            if cursor == b"0" or len(matching_keys) > max_keys:
                return matching_keys
            if time.monotonic() > deadline:
                raise RedisTooManyKeysError

    async def read_hashes(self, keys: Sequence[bytes]) -> list[HashFields]:
        """The fields of each hash, in the order of the keys; none where there is no hash."""
        return await self.execute([(b"HGETALL", key) for key in keys])

    async def read_changed(self, known_changes: Sequence[tuple[bytes, bytes]]) -> list[HashFields | None]:
        """The fields of each hash, given as (key, when it last changed as far as is known); None where it has not."""
        replies = await self.execute(
            [(b"HGET", key, CHANGED_AT_FIELD) if changed_at else (b"HGETALL", key) for key, changed_at in known_changes]
        )
        cached_indexes = [index for index, (_, when) in enumerate(known_changes) if when]
        stale_indexes = [place for place in cached_indexes if replies[place] != known_changes[place][1]]
        for place in cached_indexes:
            replies[place] = None
        if stale_indexes:
            for place, fields in zip(
                stale_indexes, await self.read_hashes([known_changes[place][0] for place in stale_indexes]), strict=True
            ):
                replies[place] = fields
        return replies


class PooledHashReader(HashReader):
    """Hashes by redis-py: a connection a concurrent read, all commands of a read in one round trip."""

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.Redis.from_url(
            url,
            protocol=3,  # in which a hash comes as a map
            socket_timeout=READ_SECONDS,
            socket_connect_timeout=READ_SECONDS,
            # A connection closed while it was idle fails once and is opened anew; a Redis that is gone fails again.
            retry=Retry(NoBackoff(), 1),
        )

    async def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        replies: list[Any] = await pipeline.execute()
        return replies

    async def close(self) -> None:
        await self._client.aclose()


class ClusterHashReader(HashReader):
    """Hashes of a cluster, each asked for where it is; connected by the first read."""

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.RedisCluster.from_url(
            server_url(url),
            protocol=3,
            socket_timeout=READ_SECONDS,
            socket_connect_timeout=READ_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )

    async def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        pipeline = self._client.pipeline()
        for name, *arguments in commands:
            pipeline.execute_command(name.decode() if isinstance(name, bytes) else name, *arguments)
        replies: list[Any] = await pipeline.execute()
        return replies

    async def scan_keys(self, prefix: bytes, max_keys: int) -> set[bytes]:
        """Of every server of the cluster."""
        matching_keys, deadline = set[bytes](), time.monotonic() + MAX_SCAN_SECONDS
        async for key in self._client.scan_iter(_match_pattern(prefix), SCAN_BATCH_SIZE):
            matching_keys.add(key)
            if len(matching_keys) > max_keys:
                break
            if time.monotonic() > deadline:
                raise RedisTooManyKeysError
        return matching_keys

    async def close(self) -> None:
        await self._client.aclose()


def _match_pattern(prefix: bytes) -> bytes:
    """What matches all that begins with some bytes.

    >>> _match_pattern(b"hr:a*b:")
    b'hr:a\\\\*b:*'
    """
    return re.sub(rb"([\\*?\[\]^-])", rb"\\\1", prefix) + b"*"


def create_hash_reader(url: str) -> HashReader:
    """Who reads what a URL names, as redis-py does."""
    return ClusterHashReader(url) if is_cluster(url) else PooledHashReader(url)


def redis_address(url: str) -> str:
    """Where a Redis is, without the name and password that may stand in its URL.

    >>> redis_address("redis://user:secret@cache:6379/0")
    'cache:6379'
    """
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
