"""Joins on Spark and a broker emit what the pure operators emit, and what brute force over every pair gives."""

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.operations.join_outputs import JoinOutputs
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.headers import position_headers
from headrace.kafka.producer.producer import Producer
from headrace.kafka.topics import ensure_topics
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, advance_operator
from headrace.spark.stateful.keyed_operator import KeyedOperatorConfig
from tests.operators import join_oracle as oracle
from tests.operators.join_events import random_event
from tests.operators.join_oracle import Told
from tests.spark.derived_stream_runner import rows_of
from tests.spark.echo_operation import FOREVER_US, iso, micros, spec_of
from tests.spark.stateful.test_operation_query import hosting
from tests.waiting import wait_until

SECOND = 1_000_000
BEGIN_US = (time.time_ns() // 1_000_000_000 - 3600) * SECOND
PATIENCE = oracle.Patience((7 * SECOND, 7 * SECOND), (7 * SECOND, 7 * SECOND), "side_output")
SCHEMA = "id string, key string, owner string, paid double, at timestamp"
NAMES = ("joined_orders", "joined_payments")


def stream(name: str) -> hr.Stream:
    return hr.Stream(name, schema=SCHEMA, id="id", key="owner", time="at", partitions=2)


def history(seed: int, count: int) -> list[InputEvent]:
    """Ten minutes of an hour ago; times apart, late ones and nulls."""
    dice = Random(seed)
    small = (random_event(dice, f"e{number}", dice.randint(0, 600), dice.randint(-4, 15)) for number in range(count))
    return [_an_hour_ago(event, number) for number, event in enumerate(small)]


def _an_hour_ago(event: InputEvent, number: int) -> InputEvent:
    time_us, arrival_us = (BEGIN_US + us * SECOND for us in (event.time_us, event.arrival_us))
    paid = 1.5 if event.values["paid"] == 1.5 else None
    values = {**event.values, "paid": paid, "owner": f"o{number}", "at": time_us}
    return event._replace(time_us=time_us, arrival_us=arrival_us, partition=number % 2, offset=number, values=values)


def send(broker: str, events: Iterable[InputEvent]) -> None:
    """Put events into the log as gates do, every seventh again a little later."""
    with Producer(broker) as producer:
        for event in events:
            value = orjson.dumps({**event.values, "at": iso(event.time_us)})
            for again in (0, 1) if event.offset % 7 == 0 else (0,):
                headers = [
                    *position_headers(event.offset * 2 + again, event.arrival_us + again),
                ]
                producer.send(f"{NAMES[event.input_index]}.clean", value, partition=event.partition, headers=headers)


def told(broker: str, joined: JoinOutputs) -> set[Told]:
    """What is in the topics of a join, in the oracle's words."""
    found = [("out", row) for row in rows_of(broker, joined.out)]
    found += [("late", row) for row in rows_of(broker, joined.late)]
    return {_told(output, row["id"], micros(row["event_time"]), micros(row["known_at"]), row) for output, row in found}


def pure(operation: StreamOperation, events: Sequence[InputEvent]) -> set[Told]:
    """What the operator makes of the events where nothing is in between."""
    operator, made = create_operator(operation), set[Told]()
    for key, of_key in groupby(sorted(events, key=_key), key=_key):
        for one in advance_operator(operator, (key or None,), operator.create_state(), of_key, FOREVER_US):  # type: ignore[arg-type]
            made.add(_told(one.output, one.id, one.time_us, one.known_us, one.values))
    return made


def _key(event: InputEvent) -> str:
    return event.values["key"] or ""


def _told(output: str, own_id: str, time_us: int, known_us: int, row: Any) -> Told:
    values = {name: row[name] for name in ("key", "paid", "right_id", "right_paid")} | {
        "left_id": row["joined_orders_id"]
    }
    if output == "late":
        values["stream"] = row["stream"].removeprefix("joined_")
    return Told(output, own_id, time_us, known_us, oracle.text(values))


@pytest.mark.shows("stream-stream join", "as-of join", lane="micro-batch", late="side_output")
def test_joins_through_the_broker_are_those_of_every_pair_of_events(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    orders, payments = map(stream, NAMES)
    both: Any = {"on": "key", "late": hr.Late("7s", then="side_output"), "prefix": "right_", "idle": "1s"}
    paid = hr.join("joined_paid", orders, payments, within=("3s", "20s"), kind="left", **both)
    valid = hr.join_asof("joined_valid", orders, payments, tolerance="30s", wait="2s", deleted="paid", **both)
    events = history(seed=8, count=400)
    asof = oracle.Asof("left", 30 * SECOND, 2 * SECOND, deletes=True)
    wanted = {
        paid: oracle.joined(events, "left", (3 * SECOND, 20 * SECOND), PATIENCE),
        valid: oracle.valid_at(events, asof, PATIENCE),
    }
    ensure_topics(broker.address, [orders, payments, *paid, *valid])
    send(broker.address, events)
    with ExitStack() as stack:
        for joined, rows in wanted.items():
            assert isinstance(joined.out.made_by, StreamOperation)
            assert pure(joined.out.made_by, events) == rows
            keyed = KeyedOperatorConfig(joined.out.made_by, (*joined,), broker.address)
            stack.enter_context(hosting(spark, spec_of(keyed, tmp_path)))
        for joined, rows in wanted.items():
            wait_until(lambda: len(told(broker.address, joined)) >= len(rows), 60, joined.out.name)  # noqa: B023
            assert told(broker.address, joined) == rows
