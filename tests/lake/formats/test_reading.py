"""Other tools read the tables, and file skipping never skips a file with matching rows."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.formats.iceberg import ConcurrentIngestError
from headrace.lake.formats.parquet_files import delta_statistics
from headrace.lake.formats.registry import FORMATS, FormatName, create_lake
from headrace.lake.ingestion.table_mapping import DAY, LakeColumn, TableMapping, record_position_columns
from headrace.lake.lake_table import LakeTable, TablePosition
from headrace.lake.maintenance import MaintenanceConfig, maintain_table
from tests.lake.read_back import iceberg_table, read_back

LANDING = TableMapping(
    "taps",
    "gold/taps",
    (LakeColumn("id", "string", ""), LakeColumn("amount", "double", ""), *record_position_columns()),
    "taps",
)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("amount", pa.float64()),
        ("hr_arrival", pa.timestamp("us", "UTC")),
        ("hr_partition", pa.int32()),
        ("hr_offset", pa.int64()),
    ]
)
TODAY = datetime(2026, 1, 10, tzinfo=UTC).date()


def add_file(table: LakeTable, day: str, offsets: range) -> None:
    """A file such as Spark writes, committed."""
    folder = table.folder / f"{DAY}={day}"
    folder.mkdir(parents=True, exist_ok=True)
    start = datetime.fromisoformat(f"{day}T00:00:00Z")
    rows = {
        "id": [f"e{offset}" for offset in offsets],
        "amount": [float("nan") if offset % 5 == 0 else float(offset) for offset in offsets],
        "hr_arrival": [start + timedelta(microseconds=offset) for offset in offsets],
        "hr_partition": [0 for _ in offsets],
        "hr_offset": list(offsets),
    }
    file = folder / f"{offsets.start}.parquet"
    pq.write_table(pa.table(rows, SCHEMA), file, compression="zstd")
    table.commit([file], {0: TablePosition(offsets.stop - 1, offsets.stop - 1)})


def three_days(lake: Path, kind: FormatName) -> LakeTable:
    """Three days of five files of ten rows."""
    create_lake(lake, kind)
    made = LakeTable(lake, LANDING)
    made.prepare()
    for number in range(15):
        add_file(made, f"2026-01-{8 + number // 5:02d}", range(number * 10, number * 10 + 10))
    return made


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return three_days(tmp_path, request.param)


@pytest.fixture
def in_delta(tmp_path: Path) -> LakeTable:
    return three_days(tmp_path, "delta")


@pytest.fixture
def in_iceberg(tmp_path: Path) -> LakeTable:
    return three_days(tmp_path / "a lake of 100 %", "iceberg")


def offsets(table: LakeTable) -> list[int]:
    """Every offset, read by the format's own library."""
    return sorted(read_back(table.folder)["hr_offset"].to_pylist())


def test_pyiceberg_polars_and_duckdb_read_the_same(in_iceberg: LakeTable) -> None:
    found = iceberg_table(in_iceberg.folder)
    assert offsets(in_iceberg) == list(range(150))
    polars = pl.scan_iceberg(found).filter(pl.col("hr_offset") >= 145).select("id", "hr_day").collect()
    assert sorted(polars["id"]) == [f"e{offset}" for offset in range(145, 150)]
    assert {str(day) for day in polars["hr_day"]} == {"2026-01-10"}
    by_its_file = pl.scan_iceberg(found.metadata_location).filter(pl.col("hr_day") == TODAY).collect()
    assert by_its_file.height == 50
    taps = found.scan().to_arrow()  # noqa: F841  # DuckDB finds it by its name
    days = duckdb.sql("select hr_day, count(*), max(hr_offset) from taps group by 1 order by 1").fetchall()
    assert [(str(day), rows, last) for day, rows, last in days] == [
        ("2026-01-08", 50, 49),
        ("2026-01-09", 50, 99),
        ("2026-01-10", 50, 149),
    ]


def test_a_reader_of_iceberg_skips_files_and_misses_nothing(in_iceberg: LakeTable) -> None:
    found = iceberg_table(in_iceberg.folder)
    for condition, files, rows in [
        ("hr_day = '2026-01-09'", 5, 50),
        ("hr_offset = 149", 1, 1),
        ("hr_offset > 9 and hr_offset < 15", 1, 5),
        ("hr_arrival = '2026-01-09T00:00:00.000099+00:00'", 1, 1),
        ("id = 'e77'", 15, 1),
        ("amount is nan", 15, 30),
        ("amount > 148", 15, 1),
    ]:
        scan = found.scan(condition)
        assert (condition, len(list(scan.plan_files())), scan.to_arrow().num_rows) == (condition, files, rows)


def test_deltalake_polars_and_duckdb_read_the_same(in_delta: LakeTable) -> None:
    table = in_delta
    arrow = DeltaTable(table.folder).to_pyarrow_table()
    assert sorted(arrow["hr_offset"].to_pylist()) == list(range(150))
    polars = pl.scan_delta(str(table.folder)).filter(pl.col("hr_offset") >= 145).select("id").collect()
    assert sorted(polars["id"]) == [f"e{offset}" for offset in range(145, 150)]
    taps = DeltaTable(table.folder).to_pyarrow_dataset()  # noqa: F841  # DuckDB finds it by its name
    found = duckdb.sql("select hr_day, count(*), max(hr_offset) from taps group by 1 order by 1").fetchall()
    assert [(str(day), rows, last) for day, rows, last in found] == [
        ("2026-01-08", 50, 49),
        ("2026-01-09", 50, 99),
        ("2026-01-10", 50, 149),
    ]


def test_a_reader_that_skips_files_by_statistics_misses_nothing(in_delta: LakeTable) -> None:
    table = in_delta
    last = datetime(2026, 1, 9, tzinfo=UTC) + timedelta(microseconds=99)
    dataset = DeltaTable(table.folder).to_pyarrow_dataset()
    for wanted, condition in [
        (1, pc.field("hr_arrival") == last),
        (30, pc.is_nan(pc.field("amount"))),
        (1, pc.field("hr_offset") == 149),
        (5, (pc.field("hr_offset") > 9) & (pc.field("hr_offset") < 15)),
        (1, pc.field("id") == "e77"),
        (149, pc.field("id") != "e77"),
    ]:
        assert dataset.to_table(filter=condition).num_rows == wanted
    assert duckdb.sql("select hr_offset from dataset where id = 'e77'").fetchall() == [(77,)]
    exactly = pl.scan_delta(str(table.folder)).filter(pl.col("hr_arrival") == last).collect()
    assert exactly["hr_offset"].to_list() == [99]


US = st.integers(-100_000_000_000_000_000, 260_000_000_000_000_000)


@given(st.lists(st.tuples(US | st.none(), st.integers(-(2**63), 2**63 - 1) | st.none()), min_size=1, max_size=20))
def test_bounds_enclose_every_value(values: list[tuple[int | None, int | None]]) -> None:
    columns = {
        "at": pa.array([at for at, _ in values], pa.timestamp("us", "UTC")),
        "n": pa.array([n for _, n in values], pa.int64()),
    }
    target = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), target, row_group_size=5)
    said = delta_statistics(pq.ParquetFile(pa.BufferReader(target.getvalue())).metadata)
    assert said["numRecords"] == len(values)
    assert said["nullCount"] == {name: column.null_count for name, column in columns.items()}
    numbers = [n for _, n in values if n is not None]
    assert said["minValues"].get("n") == min(numbers, default=None)
    assert said["maxValues"].get("n") == max(numbers, default=None)
    moments = [at for at, _ in values if at is not None]
    if "at" in said["minValues"]:
        assert micros(said["minValues"]["at"]) <= min(moments)
        assert micros(said["maxValues"]["at"]) >= max(moments)


@given(st.lists(st.none() | st.text() | st.text("a\U0010ffff", min_size=30, max_size=40), min_size=1, max_size=20))
def test_short_bounds_enclose_every_text(values: list[str | None]) -> None:
    target = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": pa.array(values, pa.string())}), target, row_group_size=5)
    said = delta_statistics(pq.ParquetFile(pa.BufferReader(target.getvalue())).metadata)
    least, greatest = (said[side]["text"].encode() for side in ("minValues", "maxValues"))
    assert all(least <= value.encode() <= greatest for value in values if value is not None)
    assert len(said["minValues"]["text"]) <= 32


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_small_files_become_one_and_every_row_stays(table: LakeTable) -> None:
    maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=6), TODAY)
    assert files_a_day(table) == {"2026-01-08": 1, "2026-01-09": 1, "2026-01-10": 5}
    maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=5), TODAY)
    assert files_a_day(table) == {"2026-01-08": 1, "2026-01-09": 1, "2026-01-10": 1}
    assert offsets(table) == list(range(150))
    assert table.positions([0]) == {0: TablePosition(149, 149)}


def test_care_without_reason_changes_nothing(table: LakeTable) -> None:
    maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=5, retention=timedelta(days=30)), TODAY)
    commits = table.format.list_commits(0)
    maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=5, retention=timedelta(days=30)), TODAY)
    assert table.format.list_commits(0) == commits


def test_days_before_the_retention_are_let_go(table: LakeTable) -> None:
    maintain_table(table.folder, MaintenanceConfig(retention=timedelta(days=1)), TODAY)
    assert sorted(files_a_day(table)) == ["2026-01-09", "2026-01-10"]
    assert table.positions([0]) == {0: TablePosition(149, 149)}


def test_files_of_a_crash_are_deleted_a_day_later(table: LakeTable) -> None:
    old, new = (table.folder / f"{DAY}=2026-01-08" / name for name in ("old.parquet", "new.parquet"))
    for orphan in (old, new):
        orphan.write_bytes(b"half a file")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(old, (two_days_ago, two_days_ago))
    maintain_table(table.folder, MaintenanceConfig(), TODAY)
    assert (old.exists(), new.exists()) == (False, True)
    assert offsets(table) == list(range(150))


def test_what_iceberg_has_replaced_is_deleted_once_no_snapshot_names_it(in_iceberg: LakeTable) -> None:
    replaced = {file.path for file in in_iceberg.format.list_files()}
    maintain_table(in_iceberg.folder, MaintenanceConfig(min_files_to_compact=5), TODAY)
    assert all(file.exists() for file in replaced)
    in_iceberg.format.refresh()
    in_iceberg.format.vacuum(retention_hours=0)
    assert not any(file.exists() for file in replaced)
    assert len(in_iceberg.format.list_commits(0)) == 1
    assert offsets(in_iceberg) == list(range(150))
    assert in_iceberg.positions([0]) == {0: TablePosition(149, 149)}


def test_of_iceberg_only_the_newest_snapshots_are_kept(in_iceberg: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.lake.formats.iceberg_maintenance.MAX_SNAPSHOTS", 4)
    before = in_iceberg.format.list_commits(0)
    maintain_table(in_iceberg.folder, MaintenanceConfig(min_files_to_compact=50), TODAY - timedelta(days=2))
    assert in_iceberg.format.list_commits(0) == before[-4:]
    assert offsets(in_iceberg) == list(range(150))


def test_of_two_writers_of_iceberg_the_second_is_refused(in_iceberg: LakeTable) -> None:
    other = LakeTable(in_iceberg.folder.parents[1], LANDING)
    other.positions([0])
    add_file(in_iceberg, "2026-01-10", range(150, 160))
    with pytest.raises(ConcurrentIngestError, match="taps/0 is at 159 there"):
        add_file(other, "2026-01-10", range(151, 170))
    with pytest.raises(ConcurrentIngestError):
        other.commit([], {0: TablePosition(169, 169)})
    assert offsets(in_iceberg) == list(range(160))


def test_a_commit_to_iceberg_that_meets_a_compaction_is_made_after_it(in_iceberg: LakeTable) -> None:
    in_iceberg.positions([0])
    maintain_table(in_iceberg.folder, MaintenanceConfig(min_files_to_compact=5), TODAY)
    add_file(in_iceberg, "2026-01-10", range(150, 160))
    assert offsets(in_iceberg) == list(range(160))
    assert files_a_day(in_iceberg) == {"2026-01-08": 1, "2026-01-09": 1, "2026-01-10": 2}


def files_a_day(table: LakeTable) -> dict[str, int]:
    counts: dict[str, int] = {}
    table.format.refresh()
    for file in table.format.list_files():
        counts[str(file.day)] = counts.get(str(file.day), 0) + 1
    return counts
