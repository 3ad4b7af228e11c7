"""A rebuilt stream: the rows of its earlier run are removed, in every format."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from headrace.declare.streams.stream import Stream
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.kafka.record_deletion import delete_all_records
from headrace.kafka.topics import fate_topics
from headrace.lake.event_reader import read_table_rows
from headrace.lake.formats.registry import FORMATS, FormatName, create_lake
from headrace.lake.ingestion.table_mapping import TableMapping, bronze_mapping, silver_mapping
from headrace.lake.lake_table import LakeTable
from headrace.lake.maintenance import MaintenanceConfig, maintain_table
from tests.lake.batch_gate import land, new_stream, pass_gate, send
from tests.lake.read_back import read_back
from tests.spark.gate.test_gate import written

BEFORE, AFTER = [f"old{number}" for number in range(40)], [f"new{number}" for number in range(20)]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("of", "is_compacted"), [(bronze_mapping, False), (silver_mapping, True)], ids=["files apart", "one file"]
)
def test_rows_of_an_earlier_run_are_removed_and_those_of_this_one_stay(
    spark: SparkSession,
    broker: EmbeddedBroker,
    tmp_path: Path,
    kind: FormatName,
    of: Callable[[Stream], TableMapping],
    is_compacted: bool,
) -> None:
    stream = new_stream(broker.address)
    landing = of(stream)
    create_lake(tmp_path, kind)
    send(broker.address, stream, [written(id=name) for name in BEFORE])
    pass_gate(spark, broker.address, stream)
    land(spark, broker.address, tmp_path, landing)
    emptied = delete_all_records(broker.address, [stream.name, *fate_topics(stream)])
    begins = {at.number: offset for at, offset in emptied.items() if at.topic == stream.name}
    assert begins == {0: 20, 1: 20}
    send(broker.address, stream, [written(id=name) for name in AFTER])
    pass_gate(spark, broker.address, stream, start=20)
    folder = land(spark, broker.address, tmp_path, landing).folder
    if is_compacted:
        maintain_table(folder, MaintenanceConfig(min_files_to_compact=2), date(2100, 1, 1))
    assert read_back(folder).num_rows == len(BEFORE) + len(AFTER)

    again = LakeTable(tmp_path, landing, begins)
    again.prepare()
    found = read_back(folder)
    assert found.num_rows == len(AFTER)
    assert pc.min(found["hr_offset"]).as_py() == 20
    assert read_table_rows(spark, tmp_path, landing).count() == len(AFTER), "as training reads it"
    commits = again.format.list_commits(0)
    LakeTable(tmp_path, landing, begins).prepare()
    assert again.format.list_commits(0) == commits, "nothing is left to remove"
    send(broker.address, stream, [written(id="newest")])
    pass_gate(spark, broker.address, stream, start=30)
    assert read_back(land(spark, broker.address, tmp_path, landing).folder).num_rows == len(AFTER) + 1
