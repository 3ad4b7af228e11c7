"""Tables land and are read whole, whatever statistics their Parquet files have."""

import operator
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, IsNaN, IsNull, NotNull
from pyspark.sql import SparkSession

from headrace.lake.event_reader import read_table_rows
from headrace.lake.formats.arrow_schemas import arrow_schema
from headrace.lake.formats.parquet_files import MAX_TEXT, delta_statistics, exact_bounds, null_counts
from headrace.lake.formats.registry import FORMATS, FormatName, create_lake
from headrace.lake.ingestion.ingest_step import new_write_session, write_parquet_files
from headrace.lake.ingestion.table_mapping import DAY, LakeColumn, TableMapping, record_position_columns
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.lake.maintenance import MaintenanceConfig, maintain_table
from tests.lake.formats.test_reading import TODAY
from tests.lake.read_back import iceberg_table, read_back

LANDING = TableMapping(
    "notes",
    "silver/notes",
    (
        *(LakeColumn(name, kind, "") for name, kind in [("id", "string"), ("card", "string"), ("at", "timestamp")]),
        *(LakeColumn(name, kind, "") for name, kind in [("text", "string"), ("blob", "binary"), ("amount", "double")]),
        LakeColumn("nothing", "string", ""),
        *record_position_columns(),
    ),
    "notes",
)
SCHEMA, DDL = arrow_schema(LANDING), LANDING.ddl
LONG = {"text", "blob"}
LENGTHS = [0, 1, 2047, 2048, 3_000, 100_000, 1_000_000]
IN_ARROW = {
    EqualTo: operator.eq,
    GreaterThanOrEqual: operator.ge,
    IsNull: pc.Expression.is_null,
    NotNull: pc.Expression.is_valid,
    IsNaN: pc.Expression.is_nan,
}
AMOUNTS = [float("nan"), float("inf"), float("-inf"), -0.0, None, 1e308, 1.5]


def value(number: int) -> str:
    """A text of one of the lengths, in letters of one to four bytes."""
    return "aé☃\U0001f600"[number % 4] * (LENGTHS[number % len(LENGTHS)] // (1, 2, 3, 4)[number % 4])


def note(number: int) -> tuple[Any, ...]:
    day = f"2026-01-{8 + number % 2:02d}"
    text = value(number)
    moment = pa.scalar(f"{day}T00:00:00Z").cast(pa.timestamp("us", "UTC")).as_py()
    amount = AMOUNTS[number % len(AMOUNTS)]
    return (
        f"{number}{text}",
        None if number % 5 == 0 else text,
        moment,
        text,
        text.encode(),
        amount,
        None,
        moment,
        0,
        number,
        moment.date(),
    )


def commit_file(table: LakeTable, file: Path) -> None:
    offsets = pq.ParquetFile(file).read(["hr_offset"])["hr_offset"].to_pylist()
    table.commit([file], {0: TablePosition(max(offsets), max(offsets))})


def write_notes(folder: Path, numbers: range, told: list[str] | bool) -> Iterator[Path]:
    """Files of notes, one a day, whose footers tell of some columns alone."""
    rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, note(number), strict=True)) for number in numbers], SCHEMA)
    for day in ("2026-01-08", "2026-01-09"):
        of_day = rows.filter(pc.field(DAY) == pc.scalar(date.fromisoformat(day))).drop_columns([DAY])
        file = folder / f"{DAY}={day}" / f"{numbers.start}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(of_day, file, write_statistics=told, compression="zstd", row_group_size=5)
        yield file


def identities(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = table.select(["hr_offset", "id", "card", "text", "blob", "nothing"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=lambda row: row[0])


@pytest.mark.parametrize("told", [True, ["at", "hr_offset", "hr_arrival", "hr_partition"]])
@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_found_whatever_files_tell_of_their_columns(
    tmp_path: Path, kind: FormatName, told: list[str] | bool
) -> None:
    table = new_table(tmp_path, kind)
    for numbers in (range(14), range(14, 28)):
        for file in write_notes(table.folder, numbers, told):
            commit_file(table, file)
    check(table, kind)
    maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=2), TODAY)
    table.format.refresh()
    assert len(table.format.list_files()) == 2
    check(table, kind)
    assert table.positions([0]) == {0: TablePosition(27, 27)}


def new_table(lake: Path, kind: FormatName) -> LakeTable:
    create_lake(lake, kind)
    table = LakeTable(lake, LANDING)
    table.prepare()
    return table


def check(table: LakeTable, kind: FormatName) -> None:
    """Every row is there, and a reader that skips files by their statistics finds each."""
    wanted = [(n, *note(n)[:2], *note(n)[3:5], None) for n in range(28)]
    assert identities(read_back(table.folder)) == wanted
    found = pa.Table.from_batches(table.scan_rows(["hr_offset", "id"], pc.field("id") == note(6)[0]))
    assert found["hr_offset"].to_pylist() == [6]
    for number in (0, 1, 4, 5, 6, 13, 27):
        assert offsets_where(table, kind, "id", EqualTo, note(number)[0]) == [number]
        assert offsets_where(table, kind, "hr_offset", EqualTo, number) == [number]
    everywhere = list(range(28))
    assert offsets_where(table, kind, "nothing", IsNull) == everywhere
    assert offsets_where(table, kind, "blob", NotNull) == everywhere
    assert offsets_where(table, kind, "card", IsNull) == everywhere[::5]
    assert offsets_where(table, kind, "card", EqualTo, "") == [n for n in everywhere if note(n)[1] == ""]
    assert offsets_where(table, kind, "amount", IsNull) == [n for n in everywhere if n % 7 == 4]
    assert offsets_where(table, kind, "amount", GreaterThanOrEqual, 1e308) == [n for n in everywhere if n % 7 in {1, 5}]
    assert offsets_where(table, kind, "amount", IsNaN) == everywhere[::7]


def offsets_where(table: LakeTable, kind: FormatName, column: str, test: Any, *value: Any) -> list[int]:
    """The offsets of the rows that a condition holds for, by the library of the format."""
    if kind == "iceberg":
        found = iceberg_table(table.folder).scan(test(column, *value), selected_fields=("hr_offset",)).to_arrow()
    else:
        dataset = DeltaTable(table.folder).to_pyarrow_dataset()
        found = dataset.to_table(columns=["hr_offset"], filter=IN_ARROW[test](pc.field(column), *value))
    return sorted(found["hr_offset"].to_pylist())


def test_bounds_and_nulls_that_one_row_group_does_not_tell_are_told_of_none(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(tmp_path / "told.parquet", schema) as writer:
        writer.write_table(pa.table({"n": [1, None], "text": ["a", None]}, schema))
    with pq.ParquetWriter(tmp_path / "untold.parquet", schema, write_statistics=False) as writer:
        writer.write_table(pa.table({"n": [9, None], "text": ["z", None]}, schema))
    told, untold = (pq.read_metadata(tmp_path / f"{name}.parquet") for name in ("told", "untold"))
    told.append_row_groups(untold)
    assert (exact_bounds(told), null_counts(told)) == ({}, {})
    assert delta_statistics(told) == {
        "numRecords": 4,
        "minValues": {"text": ""},
        "maxValues": {"text": MAX_TEXT},
        "nullCount": {},
    }


def test_values_too_long_for_the_statistics_of_spark_land_in_every_format(spark: SparkSession, tmp_path: Path) -> None:
    frame = new_write_session(spark).createDataFrame([note(number) for number in range(28)], DDL).coalesce(1)
    for kind in FORMATS:
        table = new_table(tmp_path / kind, kind)
        files = write_parquet_files(frame, table.folder)
        assert not any(LONG & null_counts(pq.read_metadata(file)).keys() for file in files)
        table.commit(files, {0: TablePosition(27, 27)})
        check(table, kind)
        long_ones = read_table_rows(spark, tmp_path / kind, LANDING).where("length(text) > 90000").count()
        assert long_ones == sum(len(value(number)) > 90_000 for number in range(28))
