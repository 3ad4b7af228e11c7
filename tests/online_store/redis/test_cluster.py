"""The table in a Redis Cluster of three equals the one in memory, and notices when a server lost its data."""

from collections.abc import Iterator

import pytest
import redis
from redis.cluster import RedisCluster
from redis.crc import key_slot

from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.record import Partition
from headrace.online_store.feature_lookup import TooManyEntitiesError
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.redis.hash_reader import RedisUnavailable
from headrace.online_store.redis.script_writer import SLOT_COUNT, server_url, slot_tags
from headrace.online_store.tile_packing import hash_key
from headrace.runtime.doctor import _check_store
from tests.online_store.store_reader import Reads
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend
from tests.servers import OwnCluster
from tests.waiting import wait_until


@pytest.fixture
def reads(cluster: OwnCluster) -> Iterator[Reads]:
    reads = Reads(cluster.url, new_spend())
    yield reads
    reads.close()


def test_a_cluster_answers_as_memory_does(reads: Reads) -> None:
    events = [Event(f"c{number % 30}", T0_US + number * MINUTE_US) for number in range(90)]
    records = changelog(events, reads.view)
    memory = MemoryStore([reads.view])
    memory.apply(records)
    reads.store.apply(records)
    cards = [*(f"c{number}" for number in range(30)), "never seen"]
    assert len({key_slot(hash_key(reads.view.name, (card,))) * 3 // SLOT_COUNT for card in cards}) == 3
    for minute in (88, 89, 100, 150):
        at_us = T0_US + minute * MINUTE_US
        expected = memory.read(reads.view.name, [(card,) for card in cards], at_us)
        assert repr(reads.read(cards, at_us)) == repr(expected)


def test_entities_are_listed_from_every_server(reads: Reads) -> None:
    reads.store.apply(changelog((Event(f"c{number}", T0_US) for number in range(300)), reads.view))
    assert sorted(reads.entities(300)) == sorted((f"c{number}",) for number in range(300))
    with pytest.raises(TooManyEntitiesError):
        reads.entities(299)


def test_one_batch_may_hold_more_entities_than_a_pipeline(reads: Reads) -> None:
    reads.store.apply(changelog((Event(f"c{number}", T0_US) for number in range(1200)), reads.view))
    assert [read.values[0] for read in reads.read([f"c{number}" for number in range(1200)], T0_US)] == [1] * 1200


def test_the_greater_n_wins_on_whichever_server(reads: Reads) -> None:
    records = changelog([Event("c1", T0_US)] * 9, reads.view)
    for record in reversed(records):
        reads.store.apply([record])
    assert reads.read(["c1"], T0_US)[0].values[:2] == [9, 9]


def test_scripts_that_servers_have_forgotten_are_loaded_again(reads: Reads, cluster: OwnCluster) -> None:
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    RedisCluster.from_url(server_url(cluster.url)).script_flush()
    reads.store.apply(changelog([Event("c1", T0_US)] * 2, reads.view))
    assert reads.read(["c1"], T0_US)[0].values[0] == 2


def test_places_lie_in_every_part_of_the_slots() -> None:
    slots = sorted(key_slot(tag.encode()) for tag in slot_tags())
    assert len(slots) == 32
    assert (
        max(after - before for before, after in zip([0, *slots], [*slots, SLOT_COUNT], strict=True))
        <= 2 * SLOT_COUNT // 32
    )


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_group_begins_again_once_any_server_came_back_empty(reads: Reads, cluster: OwnCluster, lost: int) -> None:
    group, one, other = f"group{lost}", Partition("t", 0), Partition("t", 1)
    assert reads.store.commit_offsets(group, {one: 5, other: 7}, {one, other}) == set()
    assert reads.run(reads.store.read_offsets(group, ["t"])) == {one: 5, other: 7}
    assert reads.store.commit_offsets(group, {one: 6}, set()) == set()
    assert reads.store.find_lost_partitions(group, [one, other]) == set()
    server = cluster.servers[lost]
    server.stop()
    with pytest.raises(RedisUnavailable, match="does not answer"):
        reads.store.find_lost_partitions(group, [one, other])
    server.start()
    for each in cluster.servers:
        wait_until(lambda: cluster.stands(redis.Redis.from_url(each.url)), 30, "the cluster to stand")  # noqa: B023
    wait_until(lambda: answers(reads, group, one), 30, "our client to find it")
    assert reads.store.find_lost_partitions(group, [one, other]) == {one, other}
    assert reads.store.commit_offsets(group, {one: 8}, set()) == {one}
    assert reads.run(reads.store.read_offsets(group, ["t"]))[one] == 0
    assert reads.store.commit_offsets(group, {one: 9}, {one}) == set()
    assert reads.run(reads.store.read_offsets(group, ["t"]))[one] == 9


def answers(reads: Reads, group: str, partition: Partition) -> bool:
    try:
        reads.store.find_lost_partitions(group, [partition])
        reads.run(reads.store.read_offsets(group, [partition.topic]))
    except RedisUnavailable:
        return False
    return True


def test_a_cluster_that_is_not_there_is_named_without_its_password() -> None:
    reads = Reads(f"redis+cluster://me:secret@{HOST}:{free_port()}", new_spend())
    with pytest.raises(RedisUnavailable) as refused:
        reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    with pytest.raises(RedisUnavailable):
        reads.read(["c1"], T0_US)
    assert "secret" not in str(refused.value)
    reads.close()


def test_the_doctor_knows_a_cluster_that_stands(cluster: OwnCluster) -> None:
    found = _check_store(cluster.url)
    assert found.ok, found.found
    assert "redis+cluster://" in found.found
