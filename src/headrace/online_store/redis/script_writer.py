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

WRITE_TIMEOUT_SECONDS = 5.0
CLUSTER_SCHEME = "redis+cluster"
CONNECTION_ERRORS = (redis.RedisError, RedisClusterException, OSError)  # what a client raises that gets no answer
SLOT_COUNT, OFFSET_COPIES = 16384, 32
ScriptCall = tuple[bytes | str, Sequence[bytes | str | int]]
RedisCommand = tuple[bytes | str | int, ...]


class ScriptWriter(ABC):
    """Whoever runs commands of one key each, in one round trip."""

    @abstractmethod
    def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """The answers to commands, in their order; raises what the first of them says that failed."""

    @abstractmethod
    def load_script(self, script: str) -> None:
        """Make a script known where it will run."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def offset_keys(self, group: str, topic: str) -> list[str]:
        """The hashes that each have all places of a group in a topic."""

    def run_script(self, script: str, calls: Sequence[ScriptCall]) -> list[int]:
        """Run a script on keys, each with its arguments; one that Redis has forgotten is loaded again."""
        script_hash = sha1(script.encode()).hexdigest()  # noqa: S324  # Redis names scripts so
        commands: list[RedisCommand] = [("EVALSHA", script_hash, 1, key, *arguments) for key, arguments in calls]
        try:
            return self.execute(commands)
        except NoScriptError:  # what ran before it may run again: scripts take what they know already
            self.load_script(script)
            return self.execute(commands)


class StandaloneScriptWriter(ScriptWriter):
    """A single Redis."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, **_timeout_options())

    def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
        replies: list[Any] = pipeline.execute()
        return replies

    def load_script(self, script: str) -> None:
        self._client.script_load(script)

    def close(self) -> None:
        self._client.close()

    def offset_keys(self, group: str, topic: str) -> list[str]:
        return [f"hr:places:{group}:{topic}"]


class ClusterScriptWriter(ScriptWriter):
    """A Redis Cluster, found by any of its servers; reached when it is first needed."""

    def __init__(self, url: str) -> None:
        self._url = server_url(url)

    @cached_property
    def _client(self) -> RedisCluster:
        return RedisCluster.from_url(self._url, **_timeout_options())

    def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        pipeline = self._client.pipeline()  # type: ignore[no-untyped-call]
        for command in commands:
            pipeline.execute_command(*command)
        replies: list[Any] = pipeline.execute()
        return replies

    def load_script(self, script: str) -> None:
        self._client.script_load(script)

    def close(self) -> None:
        if "_client" in vars(self):
            self._client.close()

    def offset_keys(self, group: str, topic: str) -> list[str]:
        return [f"hr:places:{{{tag}}}:{group}:{topic}" for tag in slot_tags()]


def create_script_writer(url: str) -> ScriptWriter:
    """Who writes to what a URL names."""
    return ClusterScriptWriter(url) if is_cluster(url) else StandaloneScriptWriter(url)


def is_cluster(url: str) -> bool:
    return url.startswith(f"{CLUSTER_SCHEME}://")


def server_url(url: str) -> str:
    """The URL of one server of a cluster.

    >>> server_url("redis+cluster://me:hush@cache:7000")
    'redis://me:hush@cache:7000'
    """
    return url.replace(f"{CLUSTER_SCHEME}://", "redis://", 1)


@cache
def slot_tags() -> tuple[str, ...]:
    """Words whose slots lie in each part of all slots."""
    tags_by_part: dict[int, str] = {}
    for number in count():
        tags_by_part.setdefault(key_slot(str(number).encode()) * OFFSET_COPIES // SLOT_COUNT, str(number))
        if len(tags_by_part) == OFFSET_COPIES:
            break
    return tuple(tags_by_part[part] for part in range(OFFSET_COPIES))


def _timeout_options() -> dict[str, Any]:
    return {
        "socket_timeout": WRITE_TIMEOUT_SECONDS,
        "socket_connect_timeout": WRITE_TIMEOUT_SECONDS,
        "retry": Retry(NoBackoff(), 1),
    }
