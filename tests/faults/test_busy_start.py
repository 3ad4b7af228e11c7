"""Several operations start beside processes that use every core: all of them start."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.spark.stateful.operation_query import OperationRunner
from headrace.spark.stateful.start_lock import StartLock
from tests.spark.echo_operation import Echo, arrivals, new_keyed, pure, send, soon_us, spec_of, told
from tests.waiting import wait_until

LIMIT_S = 600
OPERATIONS, HOGS = 5, 4


def burn() -> None:
    while True:
        pass


@pytest.fixture
def hogs() -> Iterator[None]:
    """Processes that each take all of a core they can get."""
    spawn = multiprocessing.get_context("spawn")
    running = [spawn.Process(target=burn, daemon=True) for _ in range(HOGS)]
    for one in running:
        one.start()
    yield
    for one in running:
        one.kill()
        one.join()


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("hogs")
def test_operations_start_on_a_busy_machine_without_a_restart(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    turns = StartLock()
    all_keyed = [new_keyed(broker.address, Echo(), name=f"busy{number}") for number in range(OPERATIONS)]
    sent = []
    for number, keyed in enumerate(all_keyed):
        sent.append(arrivals(number, 50, soon_us()))
        send(keyed, sent[-1])
    runners = [
        OperationRunner(spark, spec_of(keyed, tmp_path / str(number)), turns) for number, keyed in enumerate(all_keyed)
    ]
    for runner in runners:
        runner.start()
    try:
        wait_until(lambda: all(runner.is_running() for runner in runners), LIMIT_S, "all of them to run")
        for keyed, events in zip(all_keyed, sent, strict=True):
            wanted = pure(keyed, events)
            wait_until(lambda k=keyed, w=wanted: told(k).keys() >= w.keys(), LIMIT_S, "all it makes")  # type: ignore[misc]
            assert told(keyed) == wanted
    finally:
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(60)
    assert [(runner.health.restarts, runner.health.error) for runner in runners] == [(0, "")] * OPERATIONS
