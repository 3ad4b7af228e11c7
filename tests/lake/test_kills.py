"""kill -9 while tables are written and compacted: no event is lost or doubled."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.embedded_servers.child_process import ChildProcess
from headrace.lake.event_reader import read_silver_events, read_table_rows
from headrace.lake.formats.registry import FORMATS, FormatName, create_lake
from headrace.lake.ingestion.table_mapping import bronze_mapping, silver_mapping
from headrace.lake.lake_table import LakeTable
from tests.lake.batch_gate import land, new_stream, pass_gate, send
from tests.lake.formats.test_reading import LANDING, add_file, offsets
from tests.spark.gate.test_gate import written
from tests.waiting import patiently, wait_until

ROOT = Path(__file__).parents[2]


@contextmanager
def child(module: str, *arguments: str, output: Path) -> Iterator[ChildProcess]:
    """A process that is killed at the end of the block."""
    running = ChildProcess([sys.executable, "-m", module, *arguments], folder=ROOT, output=output)
    running.start()
    try:
        yield running
    finally:
        if running.is_alive():
            os.kill(running.pid, signal.SIGKILL)
        assert running.wait(patiently(20))


def wait_at_random(
    dice: random.Random, running: ChildProcess, said: Callable[[], str], word: str, seconds: float
) -> None:
    """Wait for the child's first output, and a random time more."""
    wait_until(lambda: word in said() or not running.is_alive(), 120, f"the child to have {word}", said)
    assert running.is_alive(), said()
    moment = time.monotonic() + dice.uniform(0, seconds)
    wait_until(lambda: time.monotonic() > moment, seconds + 10, "a random moment")


def endure_landing(spark: SparkSession, broker: str, folder: Path, kills: int, kind: FormatName = "delta") -> None:
    stream, lake, output = new_stream(broker, check=None), folder / "lake", folder / "child.out"
    create_lake(lake, kind)
    events = 150 * (kills + 1)
    send(broker, stream, [written(id=f"e{number}", n=number) for number in range(events)])
    pass_gate(spark, broker, stream)
    pass_gate(spark, broker, stream, start=events // 4)
    dice = random.Random(kills)
    for _ in range(kills):
        with child("tests.lake.child_lands", broker, str(lake), stream.name, output=output) as running:
            wait_at_random(dice, running, output.read_text, "landed", 3.0)
    for landing in (bronze_mapping(stream), silver_mapping(stream)):
        land(spark, broker, lake, landing)
    numbers = sorted(row.n for row in read_silver_events(spark, lake, stream).select("n").collect())
    assert numbers == list(range(events))
    places = [
        (row.hr_partition, row.hr_offset) for row in read_table_rows(spark, lake, bronze_mapping(stream)).collect()
    ]
    assert sorted(places) == [(number, offset) for number in (0, 1) for offset in range(events // 2)]


def endure_compaction(folder: Path, kills: int, kind: FormatName = "delta") -> None:
    create_lake(folder / "lake", kind)
    table, dice, output = LakeTable(folder / "lake", LANDING), random.Random(kills), folder / "child.out"
    table.prepare()
    adding = Adding(table)
    adding.start()
    for _ in range(kills):
        with child("tests.lake.child_compacts", str(table.folder), output=output) as running:
            wait_at_random(dice, running, output.read_text, "compacted", 0.5)
    rows = adding.finish()
    assert offsets(table) == list(range(rows))
    table.format.refresh()
    assert len(table.format.list_files()) < rows // 50  # some were made one


class Adding(threading.Thread):
    """Commits file after file, as landing does."""

    def __init__(self, table: LakeTable) -> None:
        super().__init__(daemon=True)
        self._table, self._rows, self._enough = table, 0, threading.Event()

    def run(self) -> None:
        while not self._enough.wait(0.05):
            add_file(self._table, f"2026-01-{8 + self._rows % 3:02d}", range(self._rows, self._rows + 50))
            self._rows += 50

    def finish(self) -> int:
        """Stop; how many rows there should be."""
        self._enough.set()
        self.join()
        return self._rows


@pytest.mark.faults
def test_a_kill_while_landing_loses_and_doubles_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    endure_landing(spark, broker.address, tmp_path, kills=1)


def test_three_kills_while_compacting_lose_and_double_nothing(tmp_path: Path) -> None:
    endure_compaction(tmp_path, kills=3)


@pytest.mark.faults
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", FORMATS)
def test_ten_kills_while_landing_lose_and_double_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: FormatName
) -> None:
    endure_landing(spark, broker.address, tmp_path, 10, kind)


@pytest.mark.faults
@pytest.mark.parametrize("kind", FORMATS)
def test_ten_kills_while_compacting_lose_and_double_nothing(tmp_path: Path, kind: FormatName) -> None:
    endure_compaction(tmp_path, 10, kind)
