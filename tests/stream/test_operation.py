"""Any operator on Spark and a broker makes what it makes where nothing is in between."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.local.broker import Broker
from headrace.stream.keyed import Keyed
from headrace.stream.operation import OperationRunner
from tests.stream.echoes import FOREVER_US, arrivals, new_keyed, pure, send, spec_of, told
from tests.waiting import wait_until

NOW_US = time.time_ns() // 1_000_000 * 1000


@contextmanager
def running(spark: SparkSession, keyed: Keyed, folder: Path, clock_us: int = FOREVER_US) -> Iterator[OperationRunner]:
    """An operation that runs for the length of the block."""
    runner = OperationRunner(spark, spec_of(keyed, folder, clock_us))
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()
        runner.join(30)
    assert runner.failure is None


def test_what_is_written_is_what_the_operator_makes_through_a_restart(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    keyed = new_keyed(broker.address, inputs=2)
    events = arrivals(1, 300, NOW_US, sources=2)
    send(keyed, events[:150])
    with running(spark, keyed, tmp_path):
        wait_until(lambda: len(told(keyed)) > 100, 60, "the first half")
    send(keyed, events[150:])
    wanted = pure(keyed, events)
    with running(spark, keyed, tmp_path) as runner:
        wait_until(lambda: told(keyed).keys() >= wanted.keys(), 60, "all of it")
        assert runner.running()
    assert told(keyed) == wanted
