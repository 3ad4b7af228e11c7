"""A stream that is computed again: what an earlier run of it had landed is removed, in every format."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from headrace.declare.stream import Stream
from headrace.lake.care import Care, care_for
from headrace.lake.formats import FORMATS, FormatName, begin
from headrace.lake.landing import Landing, bronze, silver
from headrace.lake.table import LakeTable
from headrace.lake.tables import table_rows
from headrace.local.broker import Broker
from headrace.log.topics import fates_of
from headrace.log.trim import empty
from tests.lake.gated import land, new_stream, pass_gate, send
from tests.lake.read_back import read_back
from tests.stream.test_gate import written

BEFORE, AFTER = [f"old{number}" for number in range(40)], [f"new{number}" for number in range(20)]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("of", "is_compacted"), [(bronze, False), (silver, True)], ids=["files apart", "one file"])
def test_rows_of_an_earlier_run_are_removed_and_those_of_this_one_stay(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    kind: FormatName,
    of: Callable[[Stream], Landing],
    is_compacted: bool,
) -> None:
    stream = new_stream(broker.address)
    landing = of(stream)
    begin(tmp_path, kind)
    send(broker.address, stream, [written(id=name) for name in BEFORE])
    pass_gate(spark, broker.address, stream)
    land(spark, broker.address, tmp_path, landing)
    emptied = empty(broker.address, [stream.name, *fates_of(stream)])
    begins = {at.number: offset for at, offset in emptied.items() if at.topic == stream.name}
    assert begins == {0: 20, 1: 20}
    send(broker.address, stream, [written(id=name) for name in AFTER])
    pass_gate(spark, broker.address, stream, start=20)
    folder = land(spark, broker.address, tmp_path, landing).folder
    if is_compacted:
        care_for(folder, Care(many_files=2), date(2100, 1, 1))
    assert read_back(folder).num_rows == len(BEFORE) + len(AFTER)

    again = LakeTable(tmp_path, landing, begins)
    again.prepare()
    found = read_back(folder)
    assert found.num_rows == len(AFTER)
    assert pc.min(found["hr_offset"]).as_py() == 20
    assert table_rows(spark, tmp_path, landing).count() == len(AFTER), "as training reads it"
    commits = again.log.commits(0)
    LakeTable(tmp_path, landing, begins).prepare()
    assert again.log.commits(0) == commits, "nothing is left to remove"
    send(broker.address, stream, [written(id="newest")])
    pass_gate(spark, broker.address, stream, start=30)
    assert read_back(land(spark, broker.address, tmp_path, landing).folder).num_rows == len(AFTER) + 1
