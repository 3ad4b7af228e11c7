"""Rows in every target: each row that was sent is there once, however often gate and producers repeat it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

import headrace as hr
from bench.postgres import OwnPostgres
from headrace.connectors.sinks.reader_deduplication import SinkTopicDeduplicator
from headrace.connectors.sinks.sink_part import SinkWorker
from headrace.connectors.sinks.writer import SinkConfig
from headrace.declare.sinks.sink import Sink
from headrace.declare.sinks.target import Target
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.topics import TopicSpec
from tests.connectors.sinks.gate_output import Gate, event, new_stream, sinking
from tests.connectors.sinks.target_reader import by, in_delta, in_iceberg, in_postgres, in_redis, records_of, timed
from tests.kafka.kafka_tools import create_topic
from tests.servers import OwnRedis
from tests.waiting import wait_until

LIMIT_S = 40.0
HOSTILE = "ä'\"; drop table odd --\U0001f600"
DELIVERIES = ("at_most_once", "at_least_once", "exactly_once")


def filled(broker: str) -> Gate:
    """Events of which some came twice, and some the gate wrote again."""
    gate = Gate(broker, new_stream(broker))
    gate.send(*map(event, range(300)))
    gate.replay(100)
    gate.send(*(event(number, amount=-1.0) for number in range(20, 60)), *map(event, range(300, 400)))
    gate.replay(30)
    return gate


def written(running: SinkWorker, rows: int) -> None:
    """Wait until a sink has written so many."""
    wait_until(
        lambda: running.processor.fate_counts["written"] >= rows,
        LIMIT_S,
        f"{rows} rows",
        lambda: f"{running.progress()}",
    )


def settle(sink: Sink, broker: str, rows: Callable[[], list[Any]], wanted: int) -> None:
    """Run a sink until so many rows are there."""
    with sinking(sink, SinkConfig(broker)) as running:
        wait_until(lambda: len(rows()) >= wanted, LIMIT_S, f"{wanted} rows", lambda: f"{running.progress()}")


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.shows("Postgres", delivery=("at_most_once", "at_least_once", "exactly_once"))
def test_a_table_of_postgres_has_the_first_row_of_each_event(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch, delivery: Any
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    gate, table = filled(broker.address), f"first_{delivery}"
    sink = Sink(table, of=gate.stream, to=hr.Postgres("env:PG_URL", table=table), delivery=delivery)
    settle(sink, broker.address, lambda: postgres.ask(f"SELECT id FROM {table}") if known(postgres, table) else [], 400)
    assert by("id", in_postgres(postgres, table)) == {name: timed(one) for name, one in gate.first().items()}


def known(postgres: OwnPostgres, table: str) -> bool:
    return bool(postgres.ask(f"SELECT 1 FROM pg_tables WHERE tablename = '{table}'"))


def test_by_the_key_of_the_stream_the_last_row_of_each_stays(
    broker: EmbeddedBroker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch, own_redis: OwnRedis, tmp_path: Path
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    monkeypatch.setenv("REDIS_URL", own_redis.url)
    gate, folder = filled(broker.address), tmp_path / "last"
    targets: dict[Target, Callable[[], list[Any]]] = {
        hr.Postgres("env:PG_URL", table="last"): lambda: in_postgres(postgres, "last"),
        hr.Redis("env:REDIS_URL", prefix="last"): lambda: in_redis(own_redis.url, "last"),
        hr.Delta(str(folder)): lambda: in_delta(folder),
        hr.Iceberg(str(tmp_path), table="last"): lambda: in_iceberg(tmp_path, "last"),
    }
    for target, read in targets.items():
        sink = Sink(f"last {target.kind}", of=gate.stream, to=target, key="card", delivery="exactly_once")
        with sinking(sink, SinkConfig(broker.address)) as running:
            written(running, 440)
        assert by("card", read()) == {card: timed(one) for card, one in gate.last().items()}


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.shows("Redis", delivery=("at_most_once", "at_least_once", "exactly_once"))
def test_a_hash_of_redis_is_the_first_row_of_each_event(
    broker: EmbeddedBroker, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch, delivery: Any
) -> None:
    monkeypatch.setenv("REDIS_URL", own_redis.url)
    gate = filled(broker.address)
    sink = Sink(f"redis {delivery}", of=gate.stream, to=hr.Redis("env:REDIS_URL", prefix="first"), delivery=delivery)
    settle(sink, broker.address, lambda: in_redis(own_redis.url, "first"), 400)
    assert by("id", in_redis(own_redis.url, "first")) == {name: timed(one) for name, one in gate.first().items()}


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.shows("Delta", delivery=("at_most_once", "at_least_once", "exactly_once"))
def test_a_delta_table_has_every_event_the_gate_let_through(
    broker: EmbeddedBroker, tmp_path: Path, delivery: Any
) -> None:
    """Appended without a key: what a producer sent twice is there twice, what the gate wrote again is not."""
    gate, folder = filled(broker.address), tmp_path / "table"
    sink = Sink(f"delta {delivery}", of=gate.stream, to=hr.Delta(str(folder)), delivery=delivery)
    settle(sink, broker.address, lambda: in_delta(folder), 440)
    assert sorted(in_delta(folder), key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.shows("Iceberg", delivery=("at_most_once", "at_least_once", "exactly_once"))
def test_an_iceberg_table_has_every_event_the_gate_let_through(
    broker: EmbeddedBroker, tmp_path: Path, delivery: Any
) -> None:
    gate, target = filled(broker.address), hr.Iceberg(str(tmp_path), table="shop.payments")
    sink = Sink(f"iceberg {delivery}", of=gate.stream, to=target, delivery=delivery)
    settle(sink, broker.address, lambda: in_iceberg(tmp_path, "shop.payments"), 440)
    found = in_iceberg(tmp_path, "shop.payments")
    assert sorted(found, key=repr) == sorted(map(timed, gate.sent), key=repr)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.shows("Kafka", delivery=("at_most_once", "at_least_once", "exactly_once"))
def test_a_topic_has_every_event_the_gate_let_through(broker: EmbeddedBroker, delivery: Any) -> None:
    gate = filled(broker.address)
    topic = f"{gate.stream.name}.copied"
    create_topic(broker.address, TopicSpec(topic, topic, 3, {}))
    sink = Sink(f"kafka {delivery}", of=gate.stream, to=hr.Kafka(topic), delivery=delivery)
    settle(sink, broker.address, lambda: records_of(broker.address, topic), 440)
    once = SinkTopicDeduplicator()
    records = [one for one in records_of(broker.address, topic) if once.is_new(one.partition, one.headers or ())]
    found = [orjson.loads(record.value or b"") for record in records]
    assert sorted(map(timed, found), key=repr) == sorted(map(timed, gate.sent), key=repr)
    assert len({record.partition for record in records}) == 3
    assert {record.key for record in records} == {one["id"].encode() for one in gate.sent}


def test_what_is_no_number_and_what_is_null_arrives_as_it_is(
    broker: EmbeddedBroker, postgres: OwnPostgres, own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    monkeypatch.setenv("REDIS_URL", own_redis.url)
    gate = Gate(broker.address, new_stream(broker.address))
    odd = {"amount": "NaN", "big": None, "n": -(2**63), "at": "1969-12-31T23:59:59.999999Z"}
    gate.send(event(1, **odd), event(2, id=HOSTILE))
    to_table, columns = hr.Postgres("env:PG_URL", table='odd "table"'), ["id", "amount", "n", "at"]
    for sink in (
        Sink("odd", of=gate.stream, to=to_table, columns=columns),
        Sink("odd too", of=gate.stream, to=hr.Redis("env:REDIS_URL", prefix="odd")),
    ):
        with sinking(sink, SinkConfig(broker.address)) as running:
            written(running, 2)
    rows = {row[0]: row[1:] for row in postgres.ask('SELECT id, amount::text, n, at::text FROM "odd ""table"""')}
    assert rows == {
        "e1": ("NaN", -(2**63), "1969-12-31 23:59:59.999999+00"),
        HOSTILE: ("0.5", 2, "2026-01-01 00:00:02.25+00"),
    }
    held = redis.Redis.from_url(own_redis.url, decode_responses=True).hgetall("odd:e1")
    assert (held["amount"], held["at"], "big" in held) == ("NaN", "1969-12-31T23:59:59.999999Z", False)
