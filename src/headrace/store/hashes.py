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

from headrace.store.packing import CHANGED, Fields
from headrace.store.reads import StoreUnavailable
from headrace.store.writes import is_cluster, server_url

READ_SECONDS = 1.0
LOOK_SECONDS = 3.0  # through the keys of a server that may hold others' as well
KEYS_AT_ONCE = 1_000

Command = tuple[bytes | str | int, ...]


class RedisUnavailable(StoreUnavailable):
    """Redis does not answer, or does not take what it is given."""

    def __init__(self, url: str, failure: BaseException) -> None:
        super().__init__(
            f"The Redis store at {place_of(url)} does not answer: {str(failure) or type(failure).__name__}. "
            "Start it, or give the address of one that runs with --store redis://HOST:PORT."
        )


class TooManyKeys(StoreUnavailable):
    """A Redis with so many keys that the entities of a view cannot be told from the others soon enough."""

    def __init__(self) -> None:
        super().__init__(
            f"The Redis store has too many keys to find the entities of a view within {LOOK_SECONDS:g} s. "
            "Ask POST /features by key, or silver and gold by SQL."
        )


class Hashes(ABC):
    """Reads whole hashes, by whatever asks Redis some commands at once."""

    @abstractmethod
    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to commands, in their order."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    async def keys(self, prefix: bytes, most: int) -> set[bytes]:
        """The keys that begin so, as far as they are looked for: one more than so many is enough."""
        found, cursor, until = set[bytes](), b"0", time.monotonic() + LOOK_SECONDS
        while True:
            asked: Command = (b"SCAN", cursor, b"MATCH", _pattern(prefix), b"COUNT", KEYS_AT_ONCE)
            ((cursor, keys),) = await self.ask([asked])
            found.update(keys)
            cursor = cursor if isinstance(cursor, bytes) else str(cursor).encode()
            if cursor == b"0" or len(found) > most:
                return found
            if time.monotonic() > until:
                raise TooManyKeys

    async def read(self, keys: Sequence[bytes]) -> list[Fields]:
        """The fields of each hash, in the order of the keys; none where there is no hash."""
        return await self.ask([(b"HGETALL", key) for key in keys])

    async def changed(self, known: Sequence[tuple[bytes, bytes]]) -> list[Fields | None]:
        """The fields of each hash, given as (key, when it last changed as far as is known); None where it has not."""
        answers = await self.ask([(b"HGET", key, CHANGED) if when else (b"HGETALL", key) for key, when in known])
        places = [place for place, (_, when) in enumerate(known) if when]
        stale = [place for place in places if answers[place] != known[place][1]]
        for place in places:
            answers[place] = None
        if stale:
            for place, fields in zip(stale, await self.read([known[place][0] for place in stale]), strict=True):
                answers[place] = fields
        return answers


class PooledHashes(Hashes):
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

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute()
        return answers

    async def close(self) -> None:
        await self._client.aclose()


class ClusterHashes(Hashes):
    """Hashes of a cluster, each asked for where it is; connected by the first read."""

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.RedisCluster.from_url(
            server_url(url),
            protocol=3,
            socket_timeout=READ_SECONDS,
            socket_connect_timeout=READ_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        pipeline = self._client.pipeline()
        for name, *arguments in commands:
            pipeline.execute_command(name.decode() if isinstance(name, bytes) else name, *arguments)
        answers: list[Any] = await pipeline.execute()
        return answers

    async def keys(self, prefix: bytes, most: int) -> set[bytes]:
        """Of every server of the cluster."""
        found, until = set[bytes](), time.monotonic() + LOOK_SECONDS
        async for key in self._client.scan_iter(_pattern(prefix), KEYS_AT_ONCE):
            found.add(key)
            if len(found) > most:
                break
            if time.monotonic() > until:
                raise TooManyKeys
        return found

    async def close(self) -> None:
        await self._client.aclose()


def _pattern(prefix: bytes) -> bytes:
    """What matches all that begins with some bytes.

    >>> _pattern(b"hr:a*b:")
    b'hr:a\\\\*b:*'
    """
    return re.sub(rb"([\\*?\[\]^-])", rb"\\\1", prefix) + b"*"


def hashes_of(url: str) -> Hashes:
    """Who reads what a URL names, as redis-py does."""
    return ClusterHashes(url) if is_cluster(url) else PooledHashes(url)


def place_of(url: str) -> str:
    """Where a Redis is, without the name and password that may stand in its URL.

    >>> place_of("redis://user:secret@cache:6379/0")
    'cache:6379'
    """
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
