"""Reading hashes from Redis in an event loop, and what is said when it does not answer."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from headrace.store.reads import StoreUnavailable
from headrace.store.scripts import READ_CHANGED

READ_SECONDS = 1.0

Fields = Mapping[bytes, bytes]


class RedisUnavailable(StoreUnavailable):
    """Redis does not answer, or does not take what it is given."""

    def __init__(self, url: str, failure: BaseException) -> None:
        super().__init__(
            f"The Redis store at {place_of(url)} does not answer: {str(failure) or type(failure).__name__}. "
            "Start it, or give the address of one that runs with --store redis://HOST:PORT."
        )


class Hashes(Protocol):
    """Reads whole hashes: the one thing a client must do to serve reads."""

    async def read(self, keys: Sequence[bytes]) -> list[Fields]:
        """The fields of each hash, in the order of the keys; none where there is no hash."""

    async def changed(self, known: Sequence[tuple[bytes, bytes]]) -> list[Fields | None]:
        """The fields of each hash, given as (key, when it last changed as far as is known); None where it has not."""

    async def close(self) -> None:
        """Close the connections."""


class PooledHashes:
    """Hashes by redis-py: a connection a concurrent read, all keys of a read in one round trip."""

    def __init__(self, url: str) -> None:
        self._client = redis.asyncio.Redis.from_url(
            url,
            protocol=3,  # in which a script can answer with a hash
            socket_timeout=READ_SECONDS,
            socket_connect_timeout=READ_SECONDS,
            # A connection closed while it was idle fails once and is opened anew; a Redis that is gone fails again.
            retry=Retry(NoBackoff(), 1),
        )

    async def read(self, keys: Sequence[bytes]) -> list[Fields]:
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.hgetall(key)
        fields: list[Fields] = await pipeline.execute()
        return fields

    async def changed(self, known: Sequence[tuple[bytes, bytes]]) -> list[Fields | None]:
        pipeline = self._client.pipeline(transaction=False)
        for key, when in known:
            pipeline.eval(READ_CHANGED, 1, key, when)
        return [None if answer == 0 else answer for answer in await pipeline.execute()]

    async def close(self) -> None:
        await self._client.aclose()


def place_of(url: str) -> str:
    """Where a Redis is, without the name and password that may stand in its URL.

    >>> place_of("redis://user:secret@cache:6379/0")
    'cache:6379'
    """
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
