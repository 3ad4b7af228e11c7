"""The online table in Redis: one hash per entity and view, one field per tile."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar
from urllib.parse import urlsplit

import redis

from headrace.declare.features.view import View
from headrace.kafka.record import Partition
from headrace.online_store.entity_changes import EntityChanges
from headrace.online_store.redis.hash_reader import HashReader, RedisUnavailable, create_hash_reader, redis_address
from headrace.online_store.redis.lua_scripts import APPLY_TILES, COMMIT_OFFSET
from headrace.online_store.redis.pipeline import PipelinedHashReader
from headrace.online_store.redis.script_writer import CONNECTION_ERRORS, create_script_writer, is_cluster, server_url
from headrace.online_store.shared_store import MAX_CACHED_ENTITIES, ChangedEntitiesRequest, SharedStore, StoreHealth
from headrace.online_store.tile_packing import HashFields, hash_prefix

COMMAND_BATCH_SIZE = 500

Answer = TypeVar("Answer")


class RedisStore(SharedStore):
    """Tables in one Redis, or in a cluster of them."""

    def __init__(
        self,
        url: str,
        views: Sequence[View],
        hash_reader: HashReader | None = None,
        max_cached_entities: int = MAX_CACHED_ENTITIES,
    ) -> None:
        super().__init__(url, views, max_cached_entities)
        self._hash_reader = hash_reader or create_hash_reader(url)
        self._script_writer = create_script_writer(url)

    @classmethod
    def open_for_reading(cls, url: str, views: Sequence[View]) -> Self:
        """Read over one connection of our own where there is one server."""
        return cls(url, views, PipelinedHashReader(url) if urlsplit(url).scheme == "redis" else None)

    @classmethod
    def check_health(cls, url: str, timeout_s: float) -> StoreHealth:
        try:
            with redis.Redis.from_url(server_url(url), socket_timeout=timeout_s) as client:
                client.ping()
                is_healthy = not is_cluster(url) or client.cluster("INFO").get("cluster_state") == "ok"
        except (redis.RedisError, ValueError, OSError) as error:
            reason = str(error).replace(url, redis_address(url))
            return StoreHealth(f"does not answer: {reason}", "start it, or use --store memory")
        if not is_healthy:
            return StoreHealth("answers, and its cluster does not stand", "see redis-cli cluster info")
        return StoreHealth("answers")

    async def read_offsets(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        """The offsets of a group, from the copy that is furthest behind."""
        offsets: dict[Partition, int] = {}
        for topic in topics:
            keys = [key.encode() for key in self._script_writer.offset_keys(group, topic)]
            copies = [
                {int(number): int(offset) for number, offset in fields.items()}
                for fields in await self._await_reply(self._hash_reader.read_hashes(keys))
            ]
            for number in set[int]().union(*copies):
                offsets[Partition(topic, number)] = min(copy_offsets.get(number, 0) for copy_offsets in copies)
        return offsets

    async def close(self) -> None:
        self._script_writer.close()
        await self._hash_reader.close()

    def commit_offsets(
        self, group: str, offsets: Mapping[Partition, int], starting: Collection[Partition]
    ) -> set[Partition]:
        calls = [
            (partition, (key, [partition.number, offset, int(partition in starting)]))
            for partition, offset in offsets.items()
            for key in self._script_writer.offset_keys(group, partition.topic)
        ]
        replies = self._run(lambda: self._script_writer.run_script(COMMIT_OFFSET, [call for _, call in calls]))
        return {partition for (partition, _), was_applied in zip(calls, replies, strict=True) if not was_applied}

    def find_lost_partitions(self, group: str, partitions: Collection[Partition]) -> set[Partition]:
        partition_keys = [
            (partition, key)
            for partition in partitions
            for key in self._script_writer.offset_keys(group, partition.topic)
        ]
        replies = self._run(
            lambda: self._script_writer.execute([("HEXISTS", key, str(one.number)) for one, key in partition_keys])
        )
        return {one for (one, _), exists in zip(partition_keys, replies, strict=True) if not exists}

    def _write_changes(self, changes: Sequence[EntityChanges]) -> None:
        for start in range(0, len(changes), COMMAND_BATCH_SIZE):
            calls = [
                (entity_changes.key, _script_arguments(entity_changes))
                for entity_changes in changes[start : start + COMMAND_BATCH_SIZE]
            ]
            self._run(partial(self._script_writer.run_script, APPLY_TILES, calls))

    async def _list_keys(self, view_name: str, max_keys: int) -> set[bytes]:
        return await self._await_reply(self._hash_reader.scan_keys(hash_prefix(view_name), max_keys))

    async def _read_changed(self, request: ChangedEntitiesRequest) -> list[HashFields | None]:
        return await self._await_reply(self._hash_reader.read_changed(request.known_changes))

    async def _await_reply(self, reply: Awaitable[Answer]) -> Answer:
        try:
            return await reply
        except CONNECTION_ERRORS as failure:
            raise RedisUnavailable(self.url, failure) from failure

    def _run(self, work: Callable[[], list[int]]) -> list[int]:
        try:
            return work()
        except CONNECTION_ERRORS as failure:
            raise RedisUnavailable(self.url, failure) from failure


def _script_arguments(entity_changes: EntityChanges) -> list[int | bytes]:
    """The arguments of the script that applies an entity's changes."""
    fields = [name_or_value for field in entity_changes.tile_fields() for name_or_value in field]
    return [
        entity_changes.lifetimes.entity_ttl_ms,
        entity_changes.newest_time_us,
        entity_changes.lifetimes.packed_lifetimes,
        *fields,
    ]
