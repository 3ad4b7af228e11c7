"""Consumer lag on a real broker, as this server measures it and exposes it to other tools."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event
from typing import Any

from confluent_kafka.admin import AdminClient

import headrace as hr
from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.ports import HOST, free_port
from headrace.kafka.consumers.consumer_groups import ConsumerGroupOffsets
from headrace.kafka.consumers.consumer_lag import LagSnapshot
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.record import Partition
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.lake import IngestionProgress
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.topics import ensure_topics
from headrace.models.stream_scoring.scoring_part import scoring_group
from headrace.online_store.changelog_applier import apply_group as store_group
from headrace.online_store.factory import create_store_reader
from headrace.online_store.memory.memory_store_reader import MemoryStoreReader
from headrace.server.metrics.lag_monitor import LagMonitor, LogConsumers, advance_by_unread_fates
from headrace.server.metrics.ledgers import StreamLedgers
from tests.kafka.streams import new_stream, new_view
from tests.server.server_thread import tiles_of
from tests.waiting import SOCKET_S, wait_until

SCHEMA = "id string, at timestamp"
ARRIVED, JUDGED, FOLDED, SCORED, LANDED = 12, 8, 5, 3, 2


def fit(frame: Any) -> Any:
    return frame


def new_app() -> App:
    view = new_view(new_stream())
    model = hr.Model(f"model{view.name}", on=view.streams[0], features=[view], train=fit)
    return App("shop", view.streams, (view,), (model,))


def send(broker: str, app: App) -> ProgressTable:
    """Twelve payments: the gate has judged eight, the tiles have five, the scorer three, the lake two."""
    stream, view = app.streams[0], app.views[0]
    first_ms = time.time_ns() // 1_000_000 - 60_000
    events = [{"id": str(n), "card": "c1", "amount": 1.0, "at": first_ms + 1000 * n} for n in range(JUDGED)]
    ensure_topics(broker, app.streams, app.views, app.models)
    with Producer(broker) as producer:
        for _ in range(ARRIVED):
            producer.send(stream.name, b"{}", partition=1)
        for offset, event in enumerate(events):
            headers = [("headrace.offset", str(offset)), ("headrace.arrival", str((first_ms + 1000 * offset) * 1000))]
            producer.send(stream.clean, event, partition=1, headers=headers)
        for tile in tiles_of(view, events[:FOLDED]):
            producer.send(view.topic, tile.value, key=tile.key, partition=0)
    commit(broker, scoring_group(app.models[0]), Partition(stream.clean, 1), SCORED)
    return board_of(app)


def commit(broker: str, group: str, place: Partition, offset: int) -> None:
    """Commit as a group member; a broker that has just started creates the groups' topic first."""
    told = ConsumerGroupOffsets(broker)

    def is_taken() -> bool:
        told.publish_offsets({group: {place: offset}})
        return committed(broker, group, place) == offset

    wait_until(is_taken, 30, group)
    told.close()


def board_of(app: App) -> ProgressTable:
    """An older query that no longer runs, the current one, and the lake."""
    board, stream, views, now_us = ProgressTable(), app.streams[0].name, (app.views[0].name,), time.time_ns() // 1000
    for number, at_us in enumerate((now_us - 1, now_us)):
        query = f"{stream}.tiles-{number}"
        board.put(QueryProgress(query, stream, views, "real-time", True, at_us, reached={"1": number}))
    table = f"silver/{stream}"
    board.put(IngestionProgress(table, now_us, 2, 6, 0.1, app.streams[0].clean, {"1": LANDED}))
    return board


def records_of(behind: LagSnapshot) -> dict[tuple[str, Partition], int]:
    return {(lag.query, lag.partition): lag.records for lag in behind.lags}


def test_each_query_is_behind_by_what_it_has_not_come_to_and_other_tools_see_it(broker: EmbeddedBroker) -> None:
    app, address = new_app(), broker.address
    stream, view, model = app.streams[0], app.views[0], app.models[0]
    board, online = send(address, app), MemoryStoreReader.create(app, address)
    clean = Partition(stream.clean, 1)
    expected = {
        (f"{stream.name}.gate", Partition(stream.name, 1)): ARRIVED - JUDGED,
        (f"{stream.name}.tiles-1", clean): JUDGED - FOLDED,
        (f"{model.name}.score", clean): JUDGED - SCORED,
        (f"silver/{stream.name}.lake", clean): JUDGED - LANDED,
        (f"{view.name}.store", Partition(view.topic, 0)): 0,
    }
    with started(online), StreamLedgers(address, app.streams) as ledgers:
        lagging = LagMonitor(address, LogConsumers(app, board, ledgers, online), publishes_groups=True)
        wait_until(lambda: online.next_offsets and ledgers.caught_up_ledgers, 20, "the log to be read")
        lagging.poll()
        wait_until(lambda: looked(lagging) >= expected.items(), 20, f"{expected}", lambda: f"{lagging.consumer_lag}")
        partitions = {lag.partition.number for lag in lagging.consumer_lag.lags if lag.query == f"{stream.name}.gate"}
        assert partitions == {*range(len(OffsetClient(address).end_offset_list(stream.name)))}
        first = lagging.consumer_lag.longest_wait_s(f"{stream.name}.gate")
        Event().wait(0.05)
        lagging.poll()
        assert (lagging.consumer_lag.longest_wait_s(f"{stream.name}.gate") or 0) > (first or 0)
    told = {
        f"headrace.shop.{stream.name}.gate": (Partition(stream.name, 1), JUDGED),
        f"headrace.shop.{stream.name}.tiles-1": (clean, FOLDED),
        f"headrace.shop.silver.{stream.name}.lake": (clean, LANDED),
    }
    for group, (place, offset) in told.items():
        wait_until(lambda group=group: group in groups(address), 10, f"the group {group}")  # type: ignore[misc]
        assert committed(address, group, place) == offset
    assert f"headrace.shop.{model.name}.score" not in groups(address)  # its own group has it


@contextmanager
def started(online: MemoryStoreReader) -> Iterator[None]:
    online.start()
    try:
        yield
    finally:
        asyncio.run(online.stop())


def test_fates_that_are_not_read_yet_are_of_the_next_raw_records() -> None:
    raw = [Partition("p", number) for number in range(3)]
    unread = {
        Partition("p.clean", 0): 5,
        Partition("p.dead", 0): 1,
        Partition("p.clean", 1): 9,
        Partition("p.late", 2): 0,
    }
    ends = {raw[0]: 100, raw[1]: 12, Partition("p.clean", 0): 8, Partition("p.dead", 0): 2, Partition("p.clean", 1): 30}
    found = advance_by_unread_fates({raw[0]: 50, raw[1]: 10, raw[2]: 7}, unread, ends)
    assert found == {raw[0]: 54, raw[1]: 12, raw[2]: 7}  # of a replay there may be more fates than raw records


def looked(lagging: LagMonitor) -> Any:
    lagging.poll()
    return records_of(lagging.consumer_lag).items()


@cache
def admin(broker: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker})


def groups(broker: str) -> set[str]:
    listed = admin(broker).list_consumer_groups(request_timeout=SOCKET_S).result()
    return {group.group_id for group in listed.valid}


def committed(broker: str, group: str, place: Partition) -> int | None:
    """The committed offset of a group; not from the admin client, which crashes on a broker that has just started."""
    asking = ConsumerGroupOffsets(broker)
    found = asking.read_committed_offsets({group: [place]}).get(group, {})
    asking.close()
    return found.get(place)


def test_with_redis_the_group_that_fills_it_says_how_far_the_store_is(broker: EmbeddedBroker) -> None:
    app, address = new_app(), broker.address
    board, place = send(address, app), Partition(app.views[0].topic, 0)
    commit(address, store_group(app.views), place, 0)
    with StreamLedgers(address, app.streams) as ledgers:
        online = create_store_reader(app, address, "redis://127.0.0.1:1/0")
        lagging = LagMonitor(address, LogConsumers(app, board, ledgers, online), publishes_groups=False)
        wait_until(lambda: ((f"{app.views[0].name}.store", place), 1) in looked(lagging), 20, "the lag of the store")
    assert not any(".tiles-" in lag.query for lag in lagging.consumer_lag.lags)


def test_a_topic_that_is_not_there_and_a_broker_that_is_not_fail_nobody(broker: EmbeddedBroker) -> None:
    place, groups = Partition("there is none", 0), ConsumerGroupOffsets(broker.address)
    groups.publish_offsets({"headrace.nobody": {place: 5}})
    assert groups.read_committed_offsets({"headrace.never was": [place], "headrace.reads nothing": []}) == {
        "headrace.never was": {},
        "headrace.reads nothing": {},
    }
    groups.close()
    nobody = ConsumerGroupOffsets(f"{HOST}:{free_port()}", 0.2)
    nobody.publish_offsets({"headrace.nobody": {place: 5}})
    assert nobody.read_committed_offsets({"headrace.nobody": [place]}) == {}
    nobody.close()


def test_a_derivation_is_where_it_has_committed_unless_that_is_minutes_old() -> None:
    one, other = (hr.Stream(name, schema=SCHEMA, id="id", key="id", time="at") for name in ("one", "other"))
    alone = hr.derive(one, name="alone")(lambda one: one)
    both = hr.derive(one, other, name="both", schema=SCHEMA, id="id", key="id", time="at")(lambda one, _: one)
    quick = hr.derive(one, name="quick")(lambda one: one)
    board = ProgressTable()
    nothing: Any = None
    for stream, lane, reached in (
        (alone, "micro-batch", {"0": 5, "1": 6}),
        (both, "micro-batch", {"one.clean-1": 7, "other.clean-0": 8}),
        (quick, "real-time", {"0": 9}),
    ):
        said = QueryProgress(
            stream.made_by.query, stream.name, (), lane, True, 1, reached=reached, derives=(stream.name,)
        )
        board.put(said)
    readers = LogConsumers(App("shop", (one, other, alone, both, quick), ()), board, nothing, nothing)
    assert readers.derivation_offsets() == {
        "alone.derive": {Partition("one.clean", 0): 5, Partition("one.clean", 1): 6},
        "both.derive": {Partition("one.clean", 1): 7, Partition("other.clean", 0): 8},
    }
