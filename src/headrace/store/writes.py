"""Writing to Redis: scripts on one key each, many in one round trip; to one server, or to a cluster of them.

Beside the tables a group of workers keeps its places. A server that came back empty has lost both, which is how it is
known. In a cluster one server may come back empty while the others have all: so the places are kept many times, spread
over the slots, and a group whose place is missing anywhere begins again.

    slots   0 ├──────── a ────────┼──────── b ────────┼──────── c ────────┤ 16383
    places    ·  ·  ·  ·  ·  ·  ·   ·  ·  ·  ·  ·  ·  ·   ·  ·  ·  ·  ·  ·
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache, cached_property
from hashlib import sha1
from itertools import count
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.crc import key_slot
from redis.exceptions import NoScriptError, RedisClusterException
from redis.retry import Retry

APPLY_SECONDS = 5.0
CLUSTER = "redis+cluster"
GONE = (redis.RedisError, RedisClusterException, OSError)  # what a client raises that gets no answer
SLOTS, SPREAD = 16384, 32
Call = tuple[bytes | str, Sequence[bytes | str | int]]
Command = tuple[bytes | str | int, ...]


class Writes(ABC):
    """Whoever runs commands of one key each, in one round trip."""

    @abstractmethod
    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to commands, in their order; raises what the first of them says that failed."""

    @abstractmethod
    def load(self, script: str) -> None:
        """Make a script known where it will run."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def place_keys(self, group: str, topic: str) -> list[str]:
        """The hashes that each have all places of a group in a topic."""

    def run(self, script: str, calls: Sequence[Call]) -> list[int]:
        """Run a script on keys, each with its arguments; one that Redis has forgotten is loaded again."""
        name = sha1(script.encode()).hexdigest()  # noqa: S324  # Redis names scripts so
        commands: list[Command] = [("EVALSHA", name, 1, key, *arguments) for key, arguments in calls]
        try:
            return self.ask(commands)
        except NoScriptError:  # what ran before it may run again: scripts take what they know already
            self.load(script)
            return self.ask(commands)


class OneServer(Writes):
    """A single Redis."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, **_patience())

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        answers: list[Any] = pipeline.execute()
        return answers

    def load(self, script: str) -> None:
        self._client.script_load(script)

    def close(self) -> None:
        self._client.close()

    def place_keys(self, group: str, topic: str) -> list[str]:
        return [f"hr:places:{group}:{topic}"]


class Cluster(Writes):
    """A Redis Cluster, found by any of its servers; reached when it is first needed."""

    def __init__(self, url: str) -> None:
        self._url = server_url(url)

    @cached_property
    def _client(self) -> RedisCluster:
        return RedisCluster.from_url(self._url, **_patience())

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        pipeline = self._client.pipeline()  # type: ignore[no-untyped-call]
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = pipeline.execute()
        return answers

    def load(self, script: str) -> None:
        self._client.script_load(script)

    def close(self) -> None:
        if "_client" in vars(self):
            self._client.close()

    def place_keys(self, group: str, topic: str) -> list[str]:
        return [f"hr:places:{{{tag}}}:{group}:{topic}" for tag in spread_tags()]


def writes_of(url: str) -> Writes:
    """Who writes to what a URL names."""
    return Cluster(url) if is_cluster(url) else OneServer(url)


def is_cluster(url: str) -> bool:
    return url.startswith(f"{CLUSTER}://")


def server_url(url: str) -> str:
    """The URL of one server of a cluster.

    >>> server_url("redis+cluster://me:hush@cache:7000")
    'redis://me:hush@cache:7000'
    """
    return url.replace(f"{CLUSTER}://", "redis://", 1)


@cache
def spread_tags() -> tuple[str, ...]:
    """Words whose slots lie in each part of all slots."""
    found: dict[int, str] = {}
    for number in count():
        found.setdefault(key_slot(str(number).encode()) * SPREAD // SLOTS, str(number))
        if len(found) == SPREAD:
            break
    return tuple(found[part] for part in range(SPREAD))


def _patience() -> dict[str, Any]:
    return {
        "socket_timeout": APPLY_SECONDS,
        "socket_connect_timeout": APPLY_SECONDS,
        "retry": Retry(NoBackoff(), 1),
    }
