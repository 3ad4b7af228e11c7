"""Rows in every target: what was sent, each once, however often the gate and producers have sent it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import headrace as hr
from headrace.declare.sink import Sink
from headrace.local.broker import Broker
from headrace.log.topics import Topic
from headrace.sink.once import Once
from headrace.sink.writer import SinkPlace
from tests.log.kafka import create_topic
from tests.servers import OwnPostgres, OwnRedis
from tests.sink.flowing import PARTITIONS, Gate, event, new_stream, sinking
from tests.sink.reading import by, in_delta, in_postgres, in_redis, records_of, timed
from tests.waiting import wait_until

LIMIT_S = 40.0
DELIVERIES = ("at_most_once", "at_least_once", "exactly_once")


def filled(broker: str) -> Gate:
    """Events of which some came twice, and some the gate wrote again."""
    gate = Gate(broker, new_stream(broker))
    gate.send(*map(event, range(300)))
    gate.replay(100)
    gate.send(*(event(number, amount=-1.0) for number in range(20, 60)), *map(event, range(300, 400)))
    gate.replay(30)
    return gate


def settle(sink: Sink, broker: str, rows: Callable[[], list[Any]], wanted: int) -> None:
    """Run a sink until so many rows are there."""
    with sinking(sink, SinkPlace(broker)) as running:
        wait_until(lambda: len(rows()) >= wanted, LIMIT_S, f"{wanted} rows", lambda: f"{running.progress()}")


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_table_of_postgres_has_the_first_row_of_each_event(
    broker: Broker, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch, delivery: Any
) -> None:
    monkeypatch.setenv("PG_URL", postgres.url)
    gate, table = filled(broker.address), f"first_{delivery}"
    sink = Sink(table, of=gate.stream, to=hr.Postgres("env:PG_URL", table=table), delivery=delivery)
    settle(sink, broker.address, lambda: postgres.ask(f"SELECT id FROM {table}") if known(postgres, table) else [], 400)
    assert by("id", in_postgres(postgres, table)) == {name: timed(one) for name, one in gate.first().items()}


def known(postgres: OwnPostgres, table: str) -> bool:
    return bool(postgres.ask(f"SELECT 1 FROM pg_tables WHERE tablename = '{table}'"))
