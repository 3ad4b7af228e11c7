"""Reads hashes from Redis in an event loop, and reports when it does not answer.

    a hash that is not cached    HGETALL
    one that is cached           HGET of its change time ──▶ HGETALL, only if it has changed

A script could do both in one step, and would cost Redis several times as much for the many unchanged hashes.
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
MAX_SCAN_SECONDS = 3.0  # when scanning the keys of a server that may also hold others
SCAN_BATCH_SIZE = 1_000

RedisCommand = tuple[bytes | str | int, ...]


class RedisUnavailable(StoreUnavailable):
    """Redis does not answer, or rejects a command."""

    def __init__(self, url: str, failure: BaseException) -> None:
        super().__init__(
            f"The Redis store at {redis_address(url)} does not answer: {str(failure) or type(failure).__name__}. "
            "Start it, or give the address of one that runs with --store redis://HOST:PORT."
        )


class RedisTooManyKeysError(StoreUnavailable):
    """Redis has so many keys that the entities of a view cannot be found in time."""

    def __init__(self) -> None:
        super().__init__(
            f"The Redis store has too many keys to find the entities of a view within {MAX_SCAN_SECONDS:g} s. "
            "Ask POST /features by key, or silver and gold by SQL."
        )


class HashReader(ABC):
    """Reads whole hashes, independent of how commands are sent."""

    @abstractmethod
    async def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """The answers to commands, in their order."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    async def scan_keys(self, prefix: bytes, max_keys: int) -> set[bytes]:
        """Keys with a prefix; stops after one more than `max_keys`."""
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
        """The fields of each hash, in the order of the keys; none for a missing hash."""
        return await self.execute([(b"HGETALL", key) for key in keys])

    async def read_changed(self, known_changes: Sequence[tuple[bytes, bytes]]) -> list[HashFields | None]:
        """The fields of each hash, given as (key, last known change); None if it has not changed since."""
        replies = await self.execute(
            [(b"HGET", key, CHANGED_AT_FIELD) if changed_at else (b"HGETALL", key) for key, changed_at in known_changes]
        )
        cached_indexes = [index for index, (_, when) in enumerate(known_changes) if when]
        stale_indexes = [index for index in cached_indexes if replies[index] != known_changes[index][1]]
        for index in cached_indexes:
            replies[index] = None
        if stale_indexes:
            for index, fields in zip(
                stale_indexes, await self.read_hashes([known_changes[index][0] for index in stale_indexes]), strict=True
            ):
                replies[index] = fields
        return replies


class PooledHashReader(HashReader):
    """Reads with redis-py: one connection per concurrent read, all commands of a read in one round trip."""

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.Redis.from_url(
            url,
            protocol=3,  # returns hashes as maps
            socket_timeout=READ_SECONDS,
            socket_connect_timeout=READ_SECONDS,
            # A connection closed while idle fails once and is reopened; a Redis that is down fails again.
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
    """Hashes of a cluster, each read from its node; connects on the first read."""

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
        """Scan every node of the cluster."""
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
    """The pattern for all keys with a prefix.

    >>> _match_pattern(b"hr:a*b:")
    b'hr:a\\\\*b:*'
    """
    return re.sub(rb"([\\*?\[\]^-])", rb"\\\1", prefix) + b"*"


def create_hash_reader(url: str) -> HashReader:
    """The reader for a URL."""
    return ClusterHashReader(url) if is_cluster(url) else PooledHashReader(url)


def redis_address(url: str) -> str:
    """The address of a Redis, without the name and password that its URL may contain.

    >>> redis_address("redis://user:secret@cache:6379/0")
    'cache:6379'
    """
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
