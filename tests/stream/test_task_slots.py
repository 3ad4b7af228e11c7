"""Queries and the tables they broadcast have room in one Spark, and where they have none it is said."""

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
from headrace.local.broker import Broker
from headrace.local.child import Child
from headrace.log.offsets import Offsets
from headrace.log.produce import Producer
from headrace.stream.task_slots import TooFewSlots, require_slots
from tests.waiting import wait_until

APP = Path(__file__).with_name("broadcasts_app.py")
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
def streaming(broker: Broker, shops: Path, tmp_path: Path) -> Iterator[Child]:
    """The streaming part of the app, in a process of its own."""
    command = [sys.executable, "-m", "headrace", "run", str(APP), "stream", "--broker", broker.address]
    child = Child([*command, "--state", str(tmp_path / "state")], folder=tmp_path, output=tmp_path / "stream.out")
    child.start({**os.environ, "SHOPS": str(shops)})
    yield child
    child.stop(grace_s=60)


def test_enriched_and_derived_streams_run_beside_views_whatever_the_tables_partitions(
    streaming: Child, broker: Broker, tmp_path: Path
) -> None:
    app, offsets = load_app(str(APP)), Offsets(broker.address)
    topics = [app.view(name).topic for name in VIEWS]
    with Producer(broker.address) as producer:
        for number in range(10):
            booking = {"id": str(number), "shop": "ab"[number % 2], "at": time.time_ns() // 1_000_000}
            producer.send("bookings", booking, key=booking["shop"])

    def counted() -> bool:
        assert streaming.alive(), (tmp_path / "stream.out").read_text()[-3000:]
        return all(sum(offsets.ends(topic)) > 0 for topic in topics)

    wait_until(counted, 240, "every view to count", lambda: (tmp_path / "stream.out").read_text()[-3000:])


def test_too_few_slots_are_refused_with_how_many_are_needed(spark: SparkSession) -> None:
    require_slots(spark, 2)
    with pytest.raises(TooFewSlots, match=r"hold 3 task slots at once.*has 2\. Give it 3 cores"):
        require_slots(spark, 3)
