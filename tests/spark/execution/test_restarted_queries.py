"""A failed query is restarted alone: the others continue, and the final output equals that without the failure."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.declare.app import App
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.errors import HeadraceError
from headrace.kafka.consumers.offset_range import read_offset_range
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.kafka.status.heartbeat import PROGRESS_TOPIC
from headrace.kafka.status.progress_table import ProgressTable
from headrace.kafka.status.reports.queries import QueryProgress
from headrace.kafka.topics import ensure_topics
from headrace.kafka.workers.worker_health import RestartPolicy
from headrace.spark.execution.app_queries import StreamingConfig, gate_spec, plan_queries
from headrace.spark.execution.lanes import Lane
from headrace.spark.execution.query_manager import QueryManager, _run_until_stopped
from headrace.spark.execution.query_runner import PendingQuerySpec, QueryRunner
from headrace.spark.stateful.operation_query import OperationRunner
from headrace.spark.stateful.start_lock import StartLock
from tests.spark.derived_stream_runner import rows_of
from tests.spark.echo_operation import Echo, arrivals, new_keyed, pure, send, soon_us, spec_of, told
from tests.waiting import wait_until

LIMIT_S = 240
QUICK = RestartPolicy(first_pause_s=0.1, max_pause_s=1.0)
SCHEMA = "id string, card string, n bigint, at timestamp"


def payments_of(first: int, count: int) -> list[dict[str, object]]:
    now_ms = time.time_ns() // 1_000_000
    return [{"id": f"p{n}", "card": f"c{n % 3}", "n": n, "at": now_ms + n} for n in range(first, first + count)]


def send_raw(broker: str, stream: hr.Stream, events: list[dict[str, object]]) -> None:
    with Producer(broker) as producer:
        for event in events:
            producer.send(stream.name, event, key=str(event["card"]))


def app_of(down: Path) -> App:
    """A stream, one of it that can be derived, one that can be only while a file is not there, one that never can."""
    taps = hr.Stream("restarted_taps", schema=SCHEMA, id="id", key="card", time="at", partitions=1)

    @F.udf("bigint")
    def asked(n):  # type: ignore[no-untyped-def]
        if down.exists():
            raise ConnectionRefusedError("the service is down")
        return 10 * n

    sound = hr.derive(taps, name="restarted_sound")(lambda taps: taps.withColumn("n", F.col("n") * 2))
    flaky = hr.derive(taps, name="restarted_flaky")(lambda taps: taps.withColumn("n", asked("n")))
    broken = hr.derive(taps, name="restarted_broken")(lambda taps: taps.select("nothing of the kind"))
    return App("app", (taps, sound, flaky, broken), ())


@contextmanager
def driving(spark: SparkSession, app: App, broker: str, state: Path) -> Iterator[None]:
    """The driver of an app's streams, as its process runs it, for the length of the block."""
    place, stop, failures = (
        StreamingConfig(broker, state, lane=Lane.MICRO_BATCH),
        threading.Event(),
        list[BaseException](),
    )
    crew = QueryManager(spark, app, place, plan_queries(app, place))

    def drive() -> None:
        try:
            _run_until_stopped(crew, crew.build_query_runners(), stop)
        except BaseException as failure:  # noqa: BLE001  # reported below
            failures.append(failure)

    driver = threading.Thread(target=drive)
    driver.start()
    try:
        yield
    finally:
        stop.set()
        driver.join(LIMIT_S)
    assert failures == []
    assert not driver.is_alive()


def progress(broker: str, query: str) -> QueryProgress | None:
    """What a query last reported."""
    offsets, board = OffsetClient(broker), ProgressTable()
    board.apply(
        read_offset_range(
            broker, offsets.topic_start_offsets([PROGRESS_TOPIC]), offsets.topic_end_offsets([PROGRESS_TOPIC])
        )
    )
    return board.reports(QueryProgress).get(query)


def test_one_query_fails_and_restarts_while_the_others_go_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    down, at = tmp_path / "down", broker.address
    down.touch()
    app = app_of(down)
    taps, sound, flaky, _ = app.streams
    assert isinstance(sound, DerivedStream)
    assert isinstance(flaky, DerivedStream)

    def is_down(query: str, why: str) -> bool:
        told = progress(at, query)
        return told is not None and not told.running and told.down_since_us is not None and why in told.error

    def is_up(query: str, restarts: int) -> bool:
        told = progress(at, query)
        return told is not None and told.running and told.down_since_us is None and told.restarts >= restarts

    with driving(spark, app, at, tmp_path / "state"):
        send_raw(at, taps, payments_of(0, 20))
        wait_until(lambda: len(rows_of(at, sound)) == 20, LIMIT_S, "the sound one to derive")
        wait_until(lambda: is_down("restarted_flaky.derive", "ConnectionRefused"), LIMIT_S, "the flaky one to be down")
        wait_until(
            lambda: is_down("restarted_broken.derive", "the function fails"), LIMIT_S, "a function to be refused"
        )
        send_raw(at, taps, payments_of(20, 20))
        wait_until(lambda: len(rows_of(at, sound)) == 40, LIMIT_S, "the sound one to go on")
        assert rows_of(at, flaky) == []
        down.unlink()
        wait_until(lambda: len(rows_of(at, flaky)) == 40, LIMIT_S, "the flaky one to catch up")
        wait_until(lambda: is_up("restarted_flaky.derive", restarts=1), LIMIT_S, "the flaky one to be up")
        wait_until(lambda: is_up("restarted_taps.gate", restarts=0), LIMIT_S, "the gate to run")
        wait_until(lambda: is_up("restarted_broken.gate", restarts=0), LIMIT_S, "one without events to run")
        for steady in ("restarted_taps.gate", "restarted_sound.derive"):
            assert (progress(at, steady) or pytest.fail("it says nothing")).restarts == 0
    assert {row["id"]: row["n"] for row in rows_of(at, sound)} == {f"p{n}": 2 * n for n in range(40)}
    assert {row["id"]: row["n"] for row in rows_of(at, flaky)} == {f"p{n}": 10 * n for n in range(40)}


class Upstream(QueryRunner):
    """A query that drains while the test says so."""

    is_draining = is_writing_backlog = False  # type: ignore[assignment]  # properties of a real one


def unmade() -> NoReturn:
    raise HeadraceError("its plan cannot be made")


@contextmanager
def gating(spark: SparkSession, broker: str, name: str, state: Path, before: QueryRunner) -> Iterator[QueryRunner]:
    """The gate of its own stream, as if it read another query's output."""
    stream = hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at", partitions=1)
    ensure_topics(broker, [stream])
    gate = QueryRunner(spark, gate_spec(stream, StreamingConfig(broker, state), 1), Lane.MICRO_BATCH, [before])
    gate.start()
    try:
        yield gate
    finally:
        gate.stop()
        gate.join(LIMIT_S)
    assert gate.health.restarts == 0, gate.health.error


def test_whoever_reads_from_a_query_that_drains_drains_with_it(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    before = Upstream(spark, PendingQuerySpec("before", "before", (), (), unmade), Lane.MICRO_BATCH)
    with gating(spark, broker.address, "after_drained", tmp_path, before) as gate:
        wait_until(gate.is_running, LIMIT_S, "it to run")
        before.is_draining = before.is_writing_backlog = True  # type: ignore[assignment]
        wait_until(lambda: gate.lane is Lane.DRAINING, LIMIT_S, "it to drain as well")
        assert not gate.is_running()
        before.is_draining = before.is_writing_backlog = False  # type: ignore[assignment]
        wait_until(gate.is_running, LIMIT_S, "it to run again")


def test_whoever_reads_from_a_query_that_is_down_goes_on_without_it(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    before = QueryRunner(spark, PendingQuerySpec("before", "before", (), (), unmade), Lane.MICRO_BATCH, policy=QUICK)
    before.start()
    try:
        with gating(spark, broker.address, "after_down", tmp_path, before) as gate:
            wait_until(gate.is_running, LIMIT_S, "it to run")
            assert before.check_health().is_down
            assert before.health.error == "its plan cannot be made"
    finally:
        before.stop()
        before.join(LIMIT_S)
    assert not before.is_alive()


def test_an_operation_that_fails_again_and_again_makes_what_it_would_have_made(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    keyed, turns = new_keyed(broker.address, Echo(), name="restarted"), StartLock()
    runner = OperationRunner(spark, spec_of(keyed, tmp_path), turns, policy=QUICK)
    runner.start()
    events = []
    try:
        for number in range(3):
            piece = arrivals(number, 100, soon_us(), keys=20, first=1000 * number)
            send(keyed, [*piece, *events[-30:]])  # a gate that failed as well writes some again
            events += piece
            wait_until(runner.is_running, LIMIT_S, "it to run")
            wait_until(lambda: sum(runner.reached_offsets().values()) > 0, LIMIT_S, "it to read")
            assert runner._run is not None
            runner._run.query.stop()  # as if it had ended by itself, wherever it just is
            wait_until(lambda n=number: runner.check_health().restarts > n, LIMIT_S, "it to restart")  # type: ignore[misc]
        wanted = pure(keyed, events)
        wait_until(lambda: told(keyed).keys() >= wanted.keys(), LIMIT_S, "all of it")
        assert not runner.check_health().is_down
        assert (
            runner.check_health().error
            == "The query restarted.derive ended by itself. It continues from its checkpoint."
        )
    finally:
        runner.stop()
        runner.join(LIMIT_S)
    assert told(keyed) == wanted
    assert runner.failure is None
