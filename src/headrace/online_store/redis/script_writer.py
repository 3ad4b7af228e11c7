"""Writes to Redis: scripts on one key each, many in one round trip; to one server, or to a cluster.

A consumer group stores its offsets beside the tables. A server that came back empty has lost both, which is how it is
detected. In a cluster one node may come back empty while the others have all: so there are many copies of the offsets,
spread over the slots, and a group with a missing copy starts again.

    slots   0 ├──────── a ────────┼──────── b ────────┼──────── c ────────┤ 16383
    offsets   ·  ·  ·  ·  ·  ·  ·   ·  ·  ·  ·  ·  ·  ·   ·  ·  ·  ·  ·  ·
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
CONNECTION_ERRORS = (redis.RedisError, RedisClusterException, OSError)  # raised by clients without a reply
SLOT_COUNT, OFFSET_COPIES = 16384, 32
ScriptCall = tuple[bytes | str, Sequence[bytes | str | int]]
RedisCommand = tuple[bytes | str | int, ...]


class ScriptWriter(ABC):
    """Runs commands of one key each, in one round trip."""

    @abstractmethod
    def execute(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """The replies to commands, in their order; raises the first error."""

    @abstractmethod
    def load_script(self, script: str) -> None:
        """Load a script where it will run."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def offset_keys(self, group: str, topic: str) -> list[str]:
        """The hashes that each have all offsets of a group in a topic."""

    def run_script(self, script: str, calls: Sequence[ScriptCall]) -> list[int]:
        """Run a script on keys, each with its arguments; a script that Redis has evicted is loaded again."""
        script_hash = sha1(script.encode()).hexdigest()  # noqa: S324  # Redis names scripts so
        commands: list[RedisCommand] = [("EVALSHA", script_hash, 1, key, *arguments) for key, arguments in calls]
        try:
            return self.execute(commands)
        except NoScriptError:  # scripts are idempotent, so those that ran before may run again
            self.load_script(script)
            return self.execute(commands)


class StandaloneScriptWriter(ScriptWriter):
    """Writes to a single Redis."""

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
    """Writes to a Redis Cluster, discovered from any of its nodes; connects on first use."""

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
    """The writer for a URL."""
    return ClusterScriptWriter(url) if is_cluster(url) else StandaloneScriptWriter(url)


def is_cluster(url: str) -> bool:
    return url.startswith(f"{CLUSTER_SCHEME}://")


def server_url(url: str) -> str:
    """The URL of one node of a cluster.

    >>> server_url("redis+cluster://me:hush@cache:7000")
    'redis://me:hush@cache:7000'
    """
    return url.replace(f"{CLUSTER_SCHEME}://", "redis://", 1)


@cache
def slot_tags() -> tuple[str, ...]:
    """Hash tags whose slots are spread over all slots."""
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
