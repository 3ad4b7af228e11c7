"""One Spark has slots for all queries and the tables they broadcast, or the error says that it has not."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from headrace.declare.app import load_app
from headrace.declare.operations.derived_stream import DerivedStream
from headrace.declare.operations.enrichment import Enrichment
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.kafka.offsets import OffsetClient
from headrace.kafka.producer.producer import Producer
from headrace.spark.derived_streams.enrichment import to_function_derivation
from headrace.spark.session.task_slots import TooFewSlots, require_task_slots
from tests.waiting import wait_until

APP = Path(__file__).parents[1] / "broadcasts_app.py"
VIEWS = ("Sales", "Located", "Given", "Read")


@pytest.fixture
def shops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shops"
    (folder / "parts").mkdir(parents=True)
    table = pa.table({"shop": ["a", "b"], "city": ["Oslo", "Rome"]})
    pyarrow.parquet.write_table(table, folder / "shops.parquet")
    pyarrow.parquet.write_table(table, folder / "parts" / "all.parquet")
    for number in range(60):
        pyarrow.parquet.write_table(table.slice(0, 0), folder / "parts" / f"{number}.parquet")
    monkeypatch.setenv("SHOPS", str(folder))
    return folder


@pytest.fixture
def streaming(broker: EmbeddedBroker, shops: Path, tmp_path: Path) -> Iterator[ChildProcess]:
    """The streaming part of the app, in its own process."""
    command = [sys.executable, "-m", "headrace", "run", str(APP), "stream", "--broker", broker.address]
    child = ChildProcess(
        [*command, "--state", str(tmp_path / "state")], folder=tmp_path, output=tmp_path / "stream.out"
    )
    child.start({**os.environ, "SHOPS": str(shops)})
    yield child
    child.stop(grace_s=60)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_enriched_and_derived_streams_run_beside_views_whatever_the_tables_partitions(
    streaming: ChildProcess, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    app, offsets = load_app(str(APP)), OffsetClient(broker.address)
    topics = [app.view(name).topic for name in VIEWS]
    with Producer(broker.address) as producer:
        for number in range(10):
            booking = {"id": str(number), "shop": "ab"[number % 2], "at": time.time_ns() // 1_000_000}
            producer.send("bookings", booking, key=booking["shop"])

    def counted() -> bool:
        assert streaming.is_alive(), (tmp_path / "stream.out").read_text()[-3000:]
        return all(sum(offsets.end_offset_list(topic)) > 0 for topic in topics)

    wait_until(counted, 600, "every view to count", lambda: (tmp_path / "stream.out").read_text()[-3000:])


def test_spark_does_not_count_the_tasks_of_a_batch_against_queries_whose_slots_are_reserved(
    spark: SparkSession,
) -> None:
    assert spark.sparkContext.getConf().get("spark.scheduler.pipelinedGroup.slotCheck.enabled") == "false"


def test_the_table_of_an_enrichment_is_read_by_one_task(spark: SparkSession, shops: Path) -> None:
    located = load_app(str(APP)).stream("located")
    assert isinstance(located, DerivedStream)
    assert isinstance(located.made_by, Enrichment)
    events = spark.createDataFrame([("a",)], "shop string")
    joined = to_function_derivation(located.made_by).function(events)
    tasks = joined._jdf.queryExecution().executedPlan().toString()
    assert "Coalesce 1" in tasks, tasks
    assert [row.city for row in joined.collect()] == ["Oslo"]


def test_too_few_slots_are_refused_with_how_many_are_needed(spark: SparkSession) -> None:
    require_task_slots(spark, 2)
    with pytest.raises(TooFewSlots, match=r"hold 3 task slots at once.*has 2\. Give it 3 cores"):
        require_task_slots(spark, 3)
