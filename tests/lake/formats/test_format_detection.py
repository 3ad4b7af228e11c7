"""One stream landed in every table format: the same rows, the same training set, the same history."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.lake.backfill.backfill import backfill_view
from headrace.lake.backfill.cutover import BackfillConfig
from headrace.lake.event_reader import read_silver_events, read_table_rows
from headrace.lake.formats.registry import FORMATS, FormatName, create_lake, detect_format
from headrace.lake.ingestion.table_mapping import bronze_mapping, silver_mapping
from headrace.lake.lake import LakeConfig, LakeFormatMismatchError, prepare_tables, require_compatible_tables
from headrace.lake.lake_table import IncompatibleTableError, LakeTable
from headrace.lake.maintenance import MaintenanceConfig, maintain_table
from headrace.lake.training.training_set import training_set
from tests.e2e.hostile_load import sent_now
from tests.lake.backfill.test_backfill import Story
from tests.lake.backfill_app import few_aggregates
from tests.lake.batch_gate import SCHEMA, land, new_stream, pass_gate, read_topic, send
from tests.lake.ingestion.test_table_mapping import exact
from tests.lake.read_back import read_back
from tests.oracle.streams import DAY_US
from tests.spark.gate.test_gate import HOSTILE, written
from tests.sql.lakes import land as fill
from tests.sql.lakes import payment, payments


def lakes(folder: Path) -> dict[FormatName, Path]:
    """A new lake in each format."""
    for kind in FORMATS:
        create_lake(folder / kind, kind)
    return {kind: folder / kind for kind in FORMATS}


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows ordered by offset, each value equal only to itself; times are numbers, for any year."""
    moments = {name: F.unix_micros(name) for name, kind in frame.dtypes if kind == "timestamp"}
    rows = frame.withColumns(moments).orderBy("hr_partition", "hr_offset").collect()
    return [tuple(map(exact, row)) for row in rows]


def test_what_is_landed_in_both_formats_is_the_same(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stream, each = new_stream(broker.address), lakes(tmp_path / "a lake of 100 %")
    send(broker.address, stream, [*HOSTILE, *(written(id=f"d{number % 7}", n=number) for number in range(40))])
    pass_gate(spark, broker.address, stream)
    pass_gate(spark, broker.address, stream, start=11)  # a crash: most of it comes again
    for landing in (bronze_mapping(stream), silver_mapping(stream)):
        for lake in each.values():
            table = land(spark, broker.address, lake, landing, most=230)
            maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=2), date(2030, 1, 1))
        in_delta, in_iceberg = (rows_of(read_table_rows(spark, lake, landing)) for lake in each.values())
        assert in_delta
        assert in_delta == in_iceberg
        assert read_back(each["iceberg"] / landing.table).num_rows == len(in_delta)
    assert {detect_format(lake) for lake in each.values()} == set(FORMATS)


def test_training_sets_and_history_are_the_same_of_both_formats(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    story, found, folded = Story.told(spark, broker.address, tmp_path), [], []
    story.happen(sent_now(4, 300, 7 * DAY_US))
    for kind, lake in lakes(tmp_path).items():
        land(spark, broker.address, lake, silver_mapping(story.stream))
        spine = read_silver_events(spark, lake, story.stream).select(
            "card", "id", "hr_arrival", "hr_offset", "hr_partition"
        )
        view = few_aggregates(f"Of{kind}{story.stream.name}", story.stream, "card")
        found.append(rows_of(training_set(spark, spine, [view], source=lake, time="hr_arrival")))
        place = BackfillConfig(lake, broker.address, tmp_path / f"{kind} state")
        assert backfill_view(lambda: spark, view, place, lambda _: None).is_done
        folded.append(
            sorted((record.partition, record.key, record.value) for record in read_topic(broker.address, view.topic))
        )
    assert found[0]
    assert found[0] == found[1]
    assert folded[0]
    assert folded[0] == folded[1]


def test_a_column_that_is_added_is_null_in_older_files_of_iceberg(tmp_path: Path) -> None:
    create_lake(tmp_path, "iceberg")
    fields = "id string, card string, amount double, at timestamp"
    narrow = hr.Stream("payments", schema=fields, id="id", key="card", time="at")
    fill(tmp_path, narrow, [payment(number) for number in range(8)], without=("country",))
    fill(tmp_path, payments, [payment(number) for number in range(8, 16)])
    wanted = {f"p{number}": payment(number)["country"] if number >= 8 else None for number in range(16)}
    for files in (8, 4):
        table = LakeTable(tmp_path, silver_mapping(payments))
        assert len(table.format.list_files()) == files
        found = read_back(table.folder).to_pylist()
        assert {row["id"]: row["country"] for row in found} == wanted
        read = pa.Table.from_batches(table.scan_rows(["id", "country"], pc.scalar(True))).to_pylist()
        assert {row["id"]: row["country"] for row in read} == wanted
        maintain_table(table.folder, MaintenanceConfig(), date(2030, 1, 1))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (SCHEMA.replace("n bigint", "n string"), "column 'n' was bigint, is string"),
        (SCHEMA.replace("n bigint, ", ""), "column 'n' is gone"),
    ],
)
def test_what_older_files_of_iceberg_contradict_is_refused(tmp_path: Path, schema: str, said: str) -> None:
    create_lake(tmp_path, "iceberg")
    before, after = (hr.Stream("taps", schema=text, id="id", key="card", time="at") for text in (SCHEMA, schema))
    for _ in range(2):
        LakeTable(tmp_path, silver_mapping(before)).prepare()
        LakeTable(tmp_path, bronze_mapping(before)).prepare()
    with pytest.raises(IncompatibleTableError, match=said):
        LakeTable(tmp_path, silver_mapping(after)).prepare()


def test_a_lake_goes_on_in_the_format_it_has(broker: EmbeddedBroker, tmp_path: Path) -> None:
    stream = new_stream(broker.address)
    for kind, lake in lakes(tmp_path).items():
        (other,) = set(FORMATS) - {kind}
        for wanted in (kind, None, None):
            prepare_tables(LakeConfig(lake, broker.address, (bronze_mapping(stream),), format=wanted))
            assert detect_format(lake) == kind
        (lake / "catalogue.db").touch()  # of a sink to Iceberg, and a table of one to Delta
        (lake / "gold" / "copied" / "_delta_log").mkdir(parents=True)
        assert detect_format(lake) == kind
        with pytest.raises(LakeFormatMismatchError, match=f"is in {kind.title()}.*Write --lake-format {kind}"):
            require_compatible_tables(LakeConfig(lake, broker.address, (bronze_mapping(stream),), format=other))
