"""The table in Cassandra: rows expire, reads cover only what windows need, and missing parts are reported."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headrace as hr
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.record import Partition
from headrace.online_store.cassandra.cassandra_store import CassandraUnavailable
from headrace.online_store.sorted_rows import HopRange
from headrace.online_store.tile_packing import hash_key
from headrace.runtime.doctor import _check_store
from tests.cassandra_server import KEYSPACE, OwnCassandra
from tests.online_store.store_reader import Reads
from tests.online_store.test_lifetime import Lifetime
from tests.online_store.tiles import MINUTE_US, T0_US, Event, changelog, new_spend
from tests.waiting import LEAST_S

TABLE = f"{KEYSPACE}.headrace_tiles"


def reads_of(server: OwnCassandra, view: hr.View) -> Iterator[Reads]:
    reads = Reads(server.url, view)
    yield reads
    reads.close()


@pytest.fixture
def reads(cassandra: OwnCassandra) -> Iterator[Reads]:
    yield from reads_of(cassandra, new_spend())


@pytest.fixture
def lifetime(cassandra: OwnCassandra) -> Iterator[Reads]:
    yield from reads_of(cassandra, replace(Lifetime, name=new_spend().name))


def lives_of(server: OwnCassandra, reads: Reads) -> list[int | None]:
    """How many seconds each tile of a card has left; None is for ever."""
    with server.session() as session:
        asked = f"SELECT TTL(value) FROM {TABLE} WHERE key = %s"
        return [row[0] for row in session.execute(asked, [hash_key(reads.view.name, ("c1",))])]


def test_a_tile_expires_61_minutes_after_the_last_window_that_holds_it(cassandra: OwnCassandra, reads: Reads) -> None:
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    of_10m, of_1h = sorted(filter(None, lives_of(cassandra, reads)))
    assert 71 * 60 < of_10m <= 72 * 60
    assert 121 * 60 < of_1h <= 122 * 60


def test_a_tile_of_a_lifetime_has_no_end(cassandra: OwnCassandra, lifetime: Reads) -> None:
    lifetime.store.apply(changelog([Event("c1", T0_US)], lifetime.view))
    assert None in lives_of(cassandra, lifetime)


def test_of_many_rows_only_those_that_windows_hold_are_read(cassandra: OwnCassandra, reads: Reads) -> None:
    for minute in range(300):
        reads.store.apply(changelog([Event("c1", T0_US + minute * MINUTE_US)], reads.view))
    at_us = T0_US + 299 * MINUTE_US
    assert reads.read(["c1"], at_us)[0].values[1] == 61
    assert len(lives_of(cassandra, reads)) == 600
    bounds = HopRange(MINUTE_US, at_us - 61 * MINUTE_US).key_bounds
    (rows,) = reads.run(reads.store._read_ranges([(hash_key(reads.view.name, ("c1",)), *bounds)]))
    assert len(rows) == 61


def test_a_batch_leaves_out_what_no_window_holds_any_more(cassandra: OwnCassandra, reads: Reads) -> None:
    events = [Event("c1", T0_US + minute * MINUTE_US) for minute in range(300)]
    reads.store.apply(changelog(events, reads.view))
    assert len(lives_of(cassandra, reads)) <= 62 + 12


def test_a_table_that_was_dropped_is_made_again_and_its_places_are_lost(
    tmp_path: Path, cassandra: OwnCassandra
) -> None:
    reads, one = Reads(cassandra.url, new_spend()), Partition("t", 0)
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    assert reads.store.commit_offsets("dropped", {one: 5}, {one}) == set()
    with cassandra.session() as session:
        session.execute(f"DROP TABLE {TABLE}")
    with pytest.raises(CassandraUnavailable, match="headrace run APP apply"):
        reads.read(["c1"], T0_US)
    assert reads.store.find_lost_partitions("dropped", [one]) == {one}
    assert reads.store.commit_offsets("dropped", {one: 6}, ()) == {one}
    reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    assert reads.read(["c1"], T0_US)[0].values[0] == 1
    reads.close()


def test_a_keyspace_that_is_missing_is_named(cassandra: OwnCassandra) -> None:
    reads = Reads(cassandra.url.replace(KEYSPACE, "nobodys"), new_spend())
    with pytest.raises(CassandraUnavailable, match="create the keyspace 'nobodys'"):
        reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    reads.close()


def test_a_cassandra_that_is_not_there_is_named_at_once_without_its_password() -> None:
    reads = Reads(f"cassandra://me:secret@{HOST}:{free_port()}/headrace", new_spend())
    began = time.monotonic()
    with pytest.raises(CassandraUnavailable, match=r"127\.0\.0\.1:\d+ does not answer") as caught:
        reads.read(["c1"], T0_US)
    with pytest.raises(CassandraUnavailable):
        reads.store.apply(changelog([Event("c1", T0_US)], reads.view))
    assert time.monotonic() - began < LEAST_S
    assert "secret" not in str(caught.value)
    reads.close()


def test_a_cassandra_that_is_not_there_leaves_no_traceback_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    reads = Reads(f"cassandra://{HOST}:{free_port()}/headrace", new_spend())
    with pytest.raises(CassandraUnavailable):
        reads.read(["c1"], T0_US)
    reads.close()
    assert "Error connecting to" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.faults
def test_killed_and_started_again_it_has_what_it_had(tmp_path: Path) -> None:
    server, one = OwnCassandra(tmp_path, lasting=True), Partition("t", 0)
    server.start()
    reads = Reads(server.url, new_spend())
    reads.store.apply(changelog([Event("c1", T0_US)] * 9, reads.view))
    assert reads.store.commit_offsets("group", {one: 5}, {one}) == set()
    server.stop()
    with pytest.raises(CassandraUnavailable):
        reads.read(["c1"], T0_US)
    server.start()
    reads.store.apply(changelog([Event("c1", T0_US)] * 3, reads.view))
    assert reads.read(["c1"], T0_US)[0].values[:2] == [9, 9]
    assert reads.store.find_lost_partitions("group", [one]) == set()
    assert reads.run(reads.store.read_offsets("group", ["t"])) == {one: 5}
    reads.close()
    server.stop()


def test_the_doctor_knows_a_cassandra_that_answers(cassandra: OwnCassandra) -> None:
    found = _check_store(cassandra.url)
    assert found.ok, found.found
    gone = _check_store(f"cassandra://me:secret@{HOST}:{free_port()}/headrace")
    assert not gone.ok
    assert "secret" not in gone.found
