"""A pattern on Spark and a broker tells what it tells where nothing is in between."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.derivation import Operation
from headrace.local.broker import Broker
from headrace.log.tail import Tail
from headrace.log.topics import APPEND_TIME, Topic, ensure_topics
from headrace.operators.careful import stepped
from headrace.operators.of import operator_of
from headrace.operators.operator import Arrived
from headrace.stream.keyed import Keyed
from headrace.stream.making import Maker
from tests.log.kafka import create_topic
from tests.stream.echoes import FOREVER_US, arrivals, payments, send
from tests.stream.test_operation import running
from tests.waiting import wait_until

NOW_US = time.time_ns() // 1_000_000 * 1000
Rows = dict[tuple[str, str], dict[str, Any]]


def new_pattern(broker: str) -> Keyed:
    """Small amounts, then a greater one, where its topics are there."""
    stream = payments("tested-cards", late=hr.Late("1s"))
    matches = (
        hr.pattern("tested", by="card", within="300ms", late=hr.Late("800ms"))
        .step("small", where="amount < 2", times="2+", keep=["seen"])
        .never("unknown", where="amount is null")
        .then("large", where="amount > first(small.amount)", keep=["amount"])
        .on(stream)
    )
    operation, outputs = matches.out.made_by, tuple(one for one in matches if one is not None)
    assert isinstance(operation, Operation)
    keyed = Keyed(operation, outputs, broker)
    ensure_topics(broker, [stream, *outputs])
    create_topic(broker, Topic(keyed.clock, keyed.clock, 1, APPEND_TIME))
    return keyed


def pure(keyed: Keyed, events: Iterable[Arrived]) -> Rows:
    """What the operator makes of each key in one go, as it would be written."""
    operator, maker, by_key = operator_of(keyed.operation), Maker(keyed.operation, keyed.outputs), dict[str, Any]()
    for event in events:
        by_key.setdefault(event.values["card"], []).append(event)
    made = [maker.rows((key,), stepped(operator, (key,), None, of_key, FOREVER_US)) for key, of_key in by_key.items()]
    rows = [(row.topic, orjson.loads(row.value)) for of_key in made for row in of_key]
    return {(topic, row["id"]): row for topic, row in rows}


def written(keyed: Keyed) -> Rows:
    """What stands in the topics of the pattern; the same id is always the same row."""
    rows: Rows = {}
    for stream in keyed.outputs:
        for record in Tail(keyed.broker, stream.name, 10**9).news():
            row = orjson.loads(record.value or b"")
            assert rows.setdefault((stream.name, row["id"]), row) == row
    return rows


@pytest.mark.shows("pattern", lane="micro-batch", late="side_output")
def test_what_a_pattern_writes_is_what_it_tells_without_a_broker_through_a_restart(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    keyed = new_pattern(broker.address)
    events = arrivals(5, 400, NOW_US)
    wanted = pure(keyed, events)
    assert all(sum(topic == stream.name for topic, _ in wanted) > 5 for stream in keyed.outputs)
    send(keyed, events[:200])
    with running(spark, keyed, tmp_path):
        wait_until(lambda: len(written(keyed)) > 10, 60, "the first of it")
    send(keyed, events[200:])
    with running(spark, keyed, tmp_path):
        wait_until(lambda: written(keyed).keys() >= wanted.keys(), 60, "all of it")
    assert written(keyed) == wanted
