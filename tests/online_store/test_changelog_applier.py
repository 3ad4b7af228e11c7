"""Apply workers share the changelog, lose nothing, and refill a server that came back empty."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import headrace as hr
from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import ConsumerRecord
from headrace.kafka.topics import ensure_topics
from headrace.online_store.changelog_applier import ApplyWorker, apply_group
from headrace.online_store.factory import create_store_reader
from headrace.online_store.feature_lookup import StoreUnavailable
from headrace.online_store.memory.memory_store import MemoryStore
from headrace.online_store.redis.redis_store import RedisStore
from headrace.online_store.registry import create_store
from tests.kafka.streams import new_stream
from tests.online_store.conftest import OwnServer
from tests.online_store.tiles import MINUTE_US, T0_US, Event, Spend, changelog, new_spend
from tests.servers import OwnRedis
from tests.waiting import wait_until

CARDS = [f"c{number}" for number in range(20)]
END_US = T0_US + 59 * MINUTE_US


def payments_of(cards: Iterable[str], minutes: Iterable[int]) -> list[Event]:
    return [Event(card, T0_US + minute * MINUTE_US) for minute in minutes for card in cards]


def send(broker: EmbeddedBroker, records: Iterable[ConsumerRecord], partitions: int) -> None:
    """Put tiles into the changelog, each entity's into one partition."""
    with Producer(broker.address, linger_ms=5) as producer:
        for record in records:
            entity = (record.key or b"").partition(b',"h"')[0]
            producer.send(record.topic, record.value, key=record.key, partition=crc32(entity) % partitions)


def read(store_url: str, view: hr.View) -> str:
    """What a store holds of every card, as text, for NaN is not equal to itself."""

    async def once() -> str:
        store = create_store(store_url, [view])
        try:
            return repr(await store.read(view.name, [(card,) for card in CARDS], END_US))
        finally:
            await store.close()

    try:
        return asyncio.run(once())
    except StoreUnavailable:  # its table is not made yet
        return ""


def expected(view: hr.View, records: Iterable[ConsumerRecord]) -> str:
    store = MemoryStore([view])
    store.apply(records)
    return repr(store.read(view.name, [(card,) for card in CARDS], END_US))


@contextmanager
def applying(broker: EmbeddedBroker, store_url: str, view: hr.View) -> Iterator[ApplyWorker]:
    """A worker with its own store."""
    store = create_store(store_url, [view])
    try:
        with ApplyWorker(broker.address, store, [view]) as worker:
            yield worker
    finally:
        asyncio.run(store.close())


def new_changelog(broker: EmbeddedBroker, partitions: int) -> hr.View:
    view = new_spend(new_stream(partitions=partitions))
    ensure_topics(broker.address, [], [view])
    return view


def test_a_worker_applies_the_changelog_and_goes_on_where_it_was(broker: EmbeddedBroker, store_url: str) -> None:
    view = new_changelog(broker, partitions=2)
    records = changelog(payments_of(CARDS, range(10)), view)
    half = len(records) // 2
    for part in (records[:half], records[half:]):
        send(broker, part, 2)
        with applying(broker, store_url, view):
            applied = records[: records.index(part[-1]) + 1]
            wait_until(
                lambda applied=applied: read(store_url, view) == expected(view, applied), 60, "the tiles in the store"
            )


def test_whoever_reads_some_of_the_views_knows_that_the_store_has_them_all(
    broker: EmbeddedBroker, store_url: str
) -> None:
    """As a scorer that is started again: its model has fewer views than the workers apply."""
    view, other = new_changelog(broker, partitions=2), new_changelog(broker, partitions=2)
    send(broker, changelog(payments_of(CARDS, range(2)), view), 2)
    app = App("shop", (), (view, other))
    store = create_store(store_url, app.views)
    with ApplyWorker(broker.address, store, app.views):
        online = create_store_reader(app, broker.address, store_url, [view])
        with asyncio.Runner() as runner:
            wait_until(lambda: runner.run(online.readiness_problems()) == [], 60, "the store to be full")
            runner.run(online.stop())
    asyncio.run(store.close())


def test_several_processes_converge_while_one_of_them_is_killed(broker: EmbeddedBroker, store_url: str) -> None:
    view = new_changelog(broker, partitions=4)
    records = changelog(payments_of(CARDS, range(60)), view)
    sent = records + random.Random(7).choices(records, k=500)
    random.Random(8).shuffle(sent)
    command = [sys.executable, "-m", "tests.online_store.apply_process", broker.address, store_url, view.name]
    root = Path(__file__).parents[2]
    workers = [subprocess.Popen(command, cwd=root) for _ in range(3)]
    try:
        send(broker, sent[: len(sent) // 2], 4)
        wait_until(lambda: read(store_url, view) != expected(view, []), 60, "the first tiles in the store")
        workers[0].kill()
        send(broker, sent[len(sent) // 2 :], 4)
        workers.append(subprocess.Popen(command, cwd=root))
        wait_until(lambda: read(store_url, view) == expected(view, records), 120, "all tiles in the store")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def test_workers_wait_for_a_server_and_fill_it_again_when_it_comes_back_empty(
    broker: EmbeddedBroker, own_server: OwnServer
) -> None:
    view = new_changelog(broker, partitions=2)
    early, late = payments_of(CARDS, range(10)), payments_of(CARDS, range(10, 20))
    records = changelog([*early, *late], view)
    half = len(records) // 2
    send(broker, records[:half], 2)
    with applying(broker, own_server.url, view) as worker:
        wait_until(
            lambda: read(own_server.url, view) == expected(view, records[:half]), 60, "the first half in the store"
        )
        own_server.stop()
        send(broker, records[half:], 2)
        wait_until(lambda: "does not answer" in worker.error, 30, "the worker to notice")
        own_server.start()
        wait_until(lambda: read(own_server.url, view) == expected(view, records), 60, "all tiles in the store")
        assert worker.error == ""


def test_an_emptied_server_is_filled_again_though_nothing_new_comes(
    broker: EmbeddedBroker, own_server: OwnServer
) -> None:
    view = new_changelog(broker, partitions=2)
    records = changelog(payments_of(CARDS, range(5)), view)
    send(broker, records, 2)
    with applying(broker, own_server.url, view):
        for _ in range(2):
            wait_until(lambda: read(own_server.url, view) == expected(view, records), 60, "all tiles in the store")
            own_server.stop()
            own_server.start()
        wait_until(lambda: read(own_server.url, view) == expected(view, records), 60, "all tiles in the store")


def test_a_worker_stops_while_the_server_is_gone_and_loses_nothing(
    broker: EmbeddedBroker, own_server: OwnServer
) -> None:
    view = new_changelog(broker, partitions=1)
    records = changelog(payments_of(CARDS, range(3)), view)
    own_server.stop()
    send(broker, records, 1)
    with applying(broker, own_server.url, view) as worker:
        wait_until(lambda: worker.error, 30, "the worker to notice")
    worker.consumer.raise_failure()
    own_server.start()
    with applying(broker, own_server.url, view):
        wait_until(lambda: read(own_server.url, view) == expected(view, records), 60, "all tiles in the store")
    assert sum(OffsetClient(broker.address).topic_end_offsets([view.topic]).values()) == len(records)


def test_a_server_emptied_between_the_first_tiles_and_their_place_is_filled_again(
    broker: EmbeddedBroker, own_redis: OwnRedis
) -> None:
    view = new_changelog(broker, partitions=1)
    records = changelog(payments_of(CARDS, range(3)), view)
    send(broker, records, 1)
    store = Emptied(own_redis, view)
    with ApplyWorker(broker.address, store, [view]):
        wait_until(lambda: store.applied > 2, 30, "the restart in the midst")
        wait_until(lambda: read(own_redis.url, view) == expected(view, records), 30, "all tiles in the store")
    asyncio.run(store.close())


class Emptied(RedisStore):
    """A Redis that is emptied once it has the first tiles of a new group."""

    def __init__(self, server: OwnRedis, view: hr.View) -> None:
        super().__init__(server.url, [view])
        self._server, self.applied = server, 0

    def apply(self, records: Iterable[ConsumerRecord]) -> None:
        super().apply(records)
        self.applied += 1
        if self.applied == 2:  # at the first call no offset was stored, so the group started
            self._server.stop()
            self._server.start()


def test_views_of_another_layout_are_applied_by_another_group() -> None:
    @hr.features(Spend.streams[0], by="card")
    class Other:
        payments = hr.count(windows="10m")

    assert apply_group([Spend]) != apply_group([Spend, Other])
    assert apply_group([Spend, Other]) == apply_group([Other, Spend])
