"""The contract of every shared store: reads equal memory's in any order of tiles, and it is refilled after a loss."""

from collections.abc import Iterator

import pytest

from headrace.kafka.record import Partition
from headrace.online_store import shared_store
from headrace.online_store.feature_lookup import RetentionExceededError, TooManyEntitiesError
from headrace.online_store.memory.memory_store import MemoryStore
from tests.online_store.store_reader import Reads
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend


@pytest.fixture(params=["redis", "cassandra"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Of every kind, also where only what is quick is run."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def reads(store_url: str) -> Iterator[Reads]:
    reads = Reads(store_url, new_spend())
    yield reads
    reads.close()


def test_a_shared_store_answers_as_memory_does(reads: Reads) -> None:
    events = [Event(f"c{number % 3}", T0_US + number * MINUTE_US) for number in range(90)]
    records = changelog(events, reads.view)
    memory = MemoryStore([reads.view])
    memory.apply(records)
    reads.store.apply(records)
    for minute in (88, 89, 100, 150):
        at_us = T0_US + minute * MINUTE_US
        expected = memory.read(reads.view.name, [("c0",), ("c1",), ("never seen",)], at_us)
        assert repr(reads.read(["c0", "c1", "never seen"], at_us)) == repr(expected)


def test_every_entity_of_a_view_is_listed_and_none_of_another(reads: Reads) -> None:
    names = [f"c{number}" for number in range(1100)] + ['quo"te', "stär*[x]", ""]
    reads.store.apply(changelog((Event(name, T0_US) for name in names), reads.view))
    other = Reads(reads.url, new_spend())
    other.store.apply(changelog([Event("another", T0_US)], other.view))
    other.close()
    assert sorted(reads.entities(len(names))) == sorted((name,) for name in names)
    with pytest.raises(TooManyEntitiesError, match=r"more than 1,102 entities, and a query may read 1,102"):
        reads.entities(len(names) - 1)


def test_one_batch_may_hold_more_entities_than_are_asked_for_at_once(reads: Reads) -> None:
    reads.store.apply(changelog((Event(f"c{number}", T0_US) for number in range(1200)), reads.view))
    assert [read.values[0] for read in reads.read([f"c{number}" for number in range(1200)], T0_US)] == [1] * 1200


def test_the_greater_n_wins(reads: Reads) -> None:
    records = changelog([Event("c1", T0_US)] * 9, reads.view)
    for record in reversed(records):
        reads.store.apply([record])
    assert reads.read(["c1"], T0_US)[0].values[:2] == [9, 9]


def test_a_place_is_only_moved_where_there_is_one(reads: Reads) -> None:
    one, two = Partition(reads.view.topic, 0), Partition(reads.view.topic, 1)
    assert reads.store.find_lost_partitions("group", [one, two]) == {one, two}
    assert reads.store.commit_offsets("group", {one: 5, two: 7}, {one}) == {two}
    assert reads.store.find_lost_partitions("group", [one, two]) == {two}
    assert reads.store.commit_offsets("group", {one: 6}, ()) == set()


def test_a_time_whose_tiles_may_have_expired_by_the_servers_clock_is_refused(
    reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    monkeypatch.setattr(shared_store, "current_time_us", lambda: T0_US + 61 * MINUTE_US)
    assert reads.read(["c1"], T0_US)[0].values[0] == 1
    monkeypatch.setattr(shared_store, "current_time_us", lambda: T0_US + 61 * MINUTE_US + 1)
    with pytest.raises(RetentionExceededError, match="is too long ago"):
        reads.read(["c1"], T0_US)
