"""The table in Redis is bounded, and reports when it is unavailable."""

import time
from collections.abc import Iterator

import pytest
import redis

from headrace.embedded_servers.ports import free_port
from headrace.online_store.redis.hash_reader import RedisUnavailable
from headrace.online_store.tile_packing import CHANGED_AT_FIELD, hash_key
from tests.online_store.store_reader import Reads
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend
from tests.servers import OwnRedis
from tests.waiting import LEAST_S


@pytest.fixture
def reads(redis_url: str) -> Iterator[Reads]:
    reads = Reads(redis_url, new_spend())
    yield reads
    reads.close()


def test_fields_that_no_window_holds_are_removed_and_hashes_expire(reads: Reads, redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    key = hash_key(reads.view.name, ("c1",))
    for minute in range(300):
        reads.store.apply(changelog([Event("c1", T0_US + minute * MINUTE_US)], reads.view))
    # 62 tiles of a minute for the hour, 12 of ten seconds for ten minutes, and those not yet looked for
    assert client.hlen(key) <= 62 + 12 + 16
    assert 61 * MINUTE_US // 1000 < client.pttl(key) <= 122 * MINUTE_US // 1000
    assert reads.read(["c1"], T0_US + 299 * MINUTE_US)[0].values[1] == 61


def test_fields_of_another_layout_are_removed_when_the_longest_window_has_passed(reads: Reads, redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    key = hash_key(reads.view.name, ("c1",))
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    (field, value) = next((field, value) for field, value in client.hgetall(key).items() if field != CHANGED_AT_FIELD)
    client.hset(key, b"old!" + field[4:], value)
    assert reads.read(["c1"], T0_US)[0].values[:2] == [1, 1]
    for minute in range(50, 100):
        reads.store.apply(changelog([Event("c1", T0_US + minute * MINUTE_US)], reads.view))
    assert not any(name.startswith(b"old!") for name in client.hkeys(key))


def test_scripts_that_redis_has_forgotten_are_loaded_again(reads: Reads, redis_url: str) -> None:
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    redis.Redis.from_url(redis_url).script_flush()
    reads.store.apply(changelog([Event("c1", T0_US)] * 2, reads.view))
    assert reads.read(["c1"], T0_US)[0].values[0] == 2


def test_a_redis_that_is_not_there_is_named_at_once_without_its_password() -> None:
    reads = Reads(f"redis://me:secret@127.0.0.1:{free_port()}/0", new_spend())
    began = time.monotonic()
    with pytest.raises(RedisUnavailable, match=r"127\.0\.0\.1:\d+ .*--store") as caught:
        reads.read(["c1"], T0_US)
    with pytest.raises(RedisUnavailable):
        reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    assert time.monotonic() - began < LEAST_S
    assert "secret" not in str(caught.value)
    reads.close()


def test_reads_come_back_by_themselves_with_redis(own_redis: OwnRedis) -> None:
    reads = Reads(own_redis.url, new_spend())
    records = changelog([Event("c1", T0_US)], reads.view)
    reads.store.apply(records)
    assert reads.read(["c1"], T0_US)[0].values[0] == 1
    own_redis.stop()
    with pytest.raises(RedisUnavailable):
        reads.read(["c1"], T0_US)
    own_redis.start()
    reads.store.apply(records)
    assert reads.read(["c1"], T0_US)[0].values[0] == 1
    reads.close()
