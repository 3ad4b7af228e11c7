"""Every operator on Spark and a broker emits what the pure operator emits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from headrace.declare.app import App
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.operators.operator import InputEvent
from headrace.spark.checkpoints.savepoints import create_savepoint, restore_savepoint
from headrace.spark.checkpoints.state_reader import find_batch, list_query_states, read_key_state
from headrace.spark.stateful.keyed_operator import BUCKET_COUNT, KeyedOperatorConfig
from headrace.spark.stateful.operation_chains import OperationChain
from headrace.spark.stateful.operation_query import OperationRunner, OperationSpec
from headrace.spark.stateful.operation_versions import plan_operation_version
from tests.spark.echo_operation import (
    SECOND,
    Echo,
    arrivals,
    gated,
    keyed_of,
    micros,
    new_keyed,
    operation_of,
    pure,
    raised,
    send,
    soon_us,
    spec_of,
    told,
    written,
)
from tests.waiting import patiently, wait_until

LIMIT_S = 240
NOW_US = time.time_ns() // 1_000_000 * 1000


@contextmanager
def hosting(spark: SparkSession, spec: OperationSpec) -> Iterator[OperationRunner]:
    """An operation that runs for the length of the block."""
    runner = OperationRunner(spark, spec)
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()
        runner.join(patiently(30))
    assert runner.health.restarts == 0, runner.health.error


def add_partitions(broker: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result()
    wait_until(lambda: len(admin.list_topics(topic).topics[topic].partitions) == count, 10, "the broker to have them")


def state_rows(runner: OperationRunner) -> int:
    return sum(operator["numRowsTotal"] for operator in runner.last_progress().get("stateOperators", []))


def test_what_is_written_is_what_the_operator_makes_through_a_restart_and_more_partitions(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    keyed = new_keyed(broker.address, inputs=2)
    first = arrivals(1, 150, soon_us(), sources=2)
    send(keyed, first)
    with hosting(spark, spec_of(keyed, tmp_path)):
        wait_until(lambda: len(told(keyed)) > 100, LIMIT_S, "the first half")
    for stream in keyed.operation.inputs:
        add_partitions(broker.address, stream.clean, 3)
    second = arrivals(2, 150, soon_us(), sources=2, partitions=3, first=1000)
    send(keyed, [*first[50:], *second])  # a gate that was killed writes some again
    wanted = pure(keyed, [*first, *second])
    with hosting(spark, spec_of(keyed, tmp_path)) as runner:
        wait_until(lambda: told(keyed).keys() >= wanted.keys(), LIMIT_S, "all of it")
        assert runner.is_running()
        wait_until(lambda: state_rows(runner) <= 2 * BUCKET_COUNT, LIMIT_S, "the keys to be forgotten")
    assert told(keyed) == wanted


def renamed(event: InputEvent, id: str, amount: float) -> InputEvent:  # noqa: A002
    return event._replace(id=id, values={**event.values, "id": id, "amount": amount})


def test_what_an_operator_cannot_do_is_put_aside_and_the_rest_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    keyed = new_keyed(broker.address, Echo(poison=13.0, fuse=99.0))
    events = arrivals(2, 60, NOW_US)
    poisoned, burning = (renamed(events[10], "poison", 13.0), renamed(events[20], "fuse", 99.0))
    events[10], events[20] = poisoned, burning
    send(keyed, events)
    healthy = [event for event in events if event.values["card"] != burning.values["card"] and event is not poisoned]
    wanted = pure(new_keyed(broker.address, Echo(), streams=keyed.operation.inputs), healthy)
    with hosting(spark, spec_of(keyed, tmp_path)):
        wait_until(lambda: told(keyed).keys() >= wanted.keys() and len(raised(keyed)) == 2, LIMIT_S, "all of it")
    assert {one: row for one, row in told(keyed).items() if one in wanted} == wanted
    place = f"{keyed.operation.inputs[0].name}-{poisoned.partition}@{poisoned.offset}"
    (of_event,) = (value for why, value in raised(keyed) if why == f"ValueError: cannot take 13.0 (at {place})")
    assert orjson.loads(of_event)["id"] == poisoned.id
    (of_key,) = (value for why, value in raised(keyed) if why == "ArithmeticError: cannot be woken")
    assert orjson.loads(of_key)["kept"]["burns"] is True


def test_an_operation_reads_what_another_writes_and_closes_while_nothing_comes(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    first = new_keyed(broker.address)
    out = first.outputs[0]
    run = plan_operation_version(first.operation, tmp_path)
    chain = OperationChain(broker.address, tmp_path, {first.operation.name: run})
    second = keyed_of(broker.address, operation_of(f"{first.operation.name}-second", [out], Echo()))
    run_of_second = plan_operation_version(second.operation, tmp_path)
    events = arrivals(3, 40, NOW_US)
    send(first, events)
    between = list(pure(first, events).values())
    with (
        hosting(spark, chain.operation_spec(run, first.outputs)),
        hosting(spark, chain.operation_spec(run_of_second, second.outputs)),
    ):
        wait_until(lambda: len(told(first)) == len(between), LIMIT_S, "the first to make its own")
        forwarded = gated(first)
        wanted = pure(second, forwarded)
        wait_until(lambda: told(second).keys() >= wanted.keys(), LIMIT_S, "the second to close, though nothing comes")
    assert told(second) == wanted


def test_recorded_history_tells_the_time_itself_and_is_closed_where_it_ends(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    keyed = new_keyed(broker.address, Echo(after_us=5 * SECOND), arrival="seen")
    long_ago_us = NOW_US - 400 * 86_400 * SECOND
    events = arrivals(4, 40, long_ago_us, apart_us=SECOND)
    send(keyed, events)
    newest_us = max(event.arrival_us for event in events)
    is_known = {one: micros(row["known_at"]) < newest_us // SECOND * SECOND for one, row in pure(keyed, events).items()}
    wanted = {one for one, known in is_known.items() if known or "woken" not in one}
    assert len(wanted) < len(is_known), "what is due after the newest arrival is not known to be complete"
    with hosting(spark, spec_of(keyed, tmp_path)):
        wait_until(lambda: told(keyed).keys() >= wanted, LIMIT_S, "all that is complete")
    assert told(keyed).keys() == wanted


def test_what_is_kept_of_a_key_can_be_read_and_gone_back_to(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    keyed = new_keyed(broker.address, Echo(after_us=3600 * SECOND))
    app = App("app", (*keyed.operation.inputs, *keyed.outputs), ())
    run = plan_operation_version(keyed.operation, tmp_path)
    spec = OperationChain(broker.address, tmp_path, {run.operation.name: run}).operation_spec(run, keyed.outputs)
    first, second = arrivals(5, 20, soon_us()), arrivals(6, 20, soon_us(), first=100)

    def kept_of(card: str) -> list[int]:
        (kept,) = list_query_states(app, tmp_path)
        (row,) = read_key_state(spark, kept, card, find_batch(kept, None, None))
        assert row["key"] == [card]
        return list(row["kept"]["kept"]["arrivals"])

    send(keyed, first)
    with hosting(spark, spec) as runner:
        wait_until(lambda: sum(runner.reached_offsets().values()) == 20, LIMIT_S, "the first")
    early = kept_of("c1")
    create_savepoint(tmp_path, "early")
    send(keyed, second)
    with hosting(spark, spec) as runner:
        wait_until(lambda: sum(runner.reached_offsets().values()) == 40, LIMIT_S, "the second")
    late = kept_of("c1")
    restore_savepoint(tmp_path, "early")
    assert kept_of("c1") == early < late
    with hosting(spark, spec) as runner:
        wait_until(lambda: sum(runner.reached_offsets().values()) == 40, LIMIT_S, "the second again")
    assert len(written(keyed)) > len(told(keyed)), "some of it was written twice"
    assert kept_of("c1") == late
    assert told(keyed).keys() == takes(keyed, [*first, *second])


def takes(keyed: KeyedOperatorConfig, events: list[InputEvent]) -> set[str]:
    """The ids of what is made of events at once."""
    return {one for one in pure(keyed, events) if "woken" not in one}
