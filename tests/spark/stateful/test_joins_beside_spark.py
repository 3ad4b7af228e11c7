"""Joins compared with Spark's stream-stream join: equal pairs, equal unmatched rows, and the speed of both (-s)."""

import os
import time
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.headers import position_headers
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, advance_operator
from headrace.spark.stateful.keyed_operator import KeyedOperatorConfig
from tests.spark.derived_stream_runner import rows_of
from tests.spark.echo_operation import FOREVER_US, iso, spec_of
from tests.spark.stateful.test_operation_query import hosting
from tests.waiting import wait_until

SECOND = 1_000_000
BEGIN_US = (time.time_ns() // 1_000_000_000 - 7200) * SECOND
EVENTS, KEYS = 20_000, 500
SCHEMA = "id string, key string, at timestamp"
Pair = tuple[str, str | None]


def events(side: int, name: str) -> list[InputEvent]:
    """Half an hour of events, each arrived when it happened."""
    dice = Random(side)
    made = []
    for number in range(EVENTS):
        time_us = BEGIN_US + dice.randrange(1800 * SECOND)
        values = {"id": f"{name}{number}", "key": f"k{dice.randrange(KEYS)}", "at": time_us}
        made.append(InputEvent(side, values["id"], time_us, time_us, number % 2, number, values))
    return made


def join_of(kind: Any) -> Any:
    left, right = (
        hr.Stream(f"beside_{name}", schema=SCHEMA, id="id", key="key", time="at", late=hr.Late("10s"))
        for name in ("orders", "payments")
    )
    return hr.join(f"beside_{kind}", left, right, on="key", within=("5s", "20s"), kind=kind)


@contextmanager
def timed(what: str) -> Any:
    began = time.perf_counter()
    yield
    spent_s = time.perf_counter() - began
    print(f"{what}: {2 * EVENTS / spent_s:,.0f} events/s ({spent_s:.1f} s)")  # noqa: T201  # with -s


def by_spark(spark: SparkSession, folder: Path, kind: str) -> set[Pair]:
    """Spark's own join of the same events, and of one a day later on each side, which lets the watermark pass."""
    left, right = (_frame(spark, folder / name).alias(name) for name in ("o", "p"))
    near = F.expr("o.key = p.key and p.at >= o.at - interval 5 seconds and p.at <= o.at + interval 20 seconds")
    pairs = left.join(right, near, kind).select(F.col("o.id").alias("o"), F.col("p.id").alias("p"))
    with timed(f"Spark's own {kind} join, files to memory"):
        query = pairs.writeStream.format("memory").queryName(f"pairs_{kind}").trigger(availableNow=True).start()
        query.awaitTermination()
    return {(row.o, row.p) for row in spark.table(f"pairs_{kind}").collect()}


def _frame(spark: SparkSession, folder: Path) -> DataFrame:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return read.withWatermark("at", "10 seconds")


def write(folder: Path, name: str, found: Iterable[InputEvent]) -> None:
    (folder / name).mkdir()
    lines = [orjson.dumps({**one.values, "at": iso(one.time_us)}) for one in found]
    (folder / name / "1.json").write_bytes(b"\n".join(lines))
    os.utime(folder / name / "1.json", (0, 0))  # files are read in the order of their times
    last = {"id": "last", "key": f"last {name}", "at": iso(BEGIN_US + 86400 * SECOND)}
    (folder / name / "2.json").write_bytes(orjson.dumps(last))


def by_operator(operation: StreamOperation, found: list[InputEvent]) -> set[Pair]:
    operator, by_key = create_operator(operation), dict[str, list[InputEvent]]()
    for one in found:
        by_key.setdefault(one.values["key"], []).append(one)
    pairs = set[Pair]()
    with timed(f"the operator alone, {operation.name}"):
        for key, of_key in by_key.items():
            for made in advance_operator(operator, (key,), operator.create_state(), of_key, FOREVER_US):
                pairs.add((made.values["beside_orders_id"], made.values["beside_payments_id"]))
    return pairs


@pytest.mark.faults
def test_joins_are_those_of_spark_itself(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    orders, payments = events(0, "o"), events(1, "p")
    write(tmp_path, "o", orders)
    write(tmp_path, "p", payments)
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    for kind in ("inner", "left"):
        found = by_operator(join_of(kind).out.made_by, orders + payments)
        assert {pair for pair in by_spark(spark, tmp_path, kind) if pair[0] != "last"} == found
    through = join_of("left")
    ensure_topics(broker.address, [*through.out.made_by.inputs, *through])
    _send(broker.address, orders + payments)
    keyed = KeyedOperatorConfig(through.out.made_by, (*through,), broker.address)
    with timed("the host, Kafka to Kafka, its start included"), hosting(spark, spec_of(keyed, tmp_path)):
        wait_until(lambda: _written(broker.address, through.out.name) >= len(found), 200, "all rows")
    rows = rows_of(broker.address, through.out)
    assert {(row["beside_orders_id"], row["beside_payments_id"]) for row in rows} == found


def _written(broker: str, topic: str) -> int:
    return sum(OffsetClient(broker).topic_end_offsets([topic]).values())


def _send(broker: str, found: Iterable[InputEvent]) -> None:
    with Producer(broker) as producer:
        for one in found:
            value = orjson.dumps({**one.values, "at": iso(one.time_us)})
            headers = position_headers(one.offset, one.arrival_us)
            topic = ("beside_orders.clean", "beside_payments.clean")[one.input_index]
            producer.send(topic, value, key=one.values["key"], partition=one.partition, headers=headers)
