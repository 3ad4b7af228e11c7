"""The catalogue of an Iceberg lake: in a folder anywhere, and created by several processes at once."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from headrace.lake.formats.iceberg import IcebergFormat
from headrace.lake.formats.iceberg_catalog import open_catalog
from headrace.lake.formats.registry import CATALOG_FILE, create_lake
from headrace.lake.lake_table import LakeTable
from tests.lake.formats.test_reading import LANDING, add_file
from tests.lake.read_back import read_back
from tests.waiting import wait_until

PROCESSES = 3
CHILD = Path(__file__).parents[1] / "child_creates.py"


def test_a_lake_in_a_relative_folder_is_read_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create_lake(Path("state/lake"), "iceberg")
    table = LakeTable(Path("state/lake"), LANDING)
    table.prepare()
    add_file(table, "2026-01-08", range(10))
    IcebergFormat(Path("state/lake/gold/plain")).append_rows(pa.table({"n": [1]}))
    monkeypatch.chdir("/")
    assert read_back(tmp_path / "state/lake/gold/taps").num_rows == 10
    assert read_back(tmp_path / "state/lake/gold/plain").num_rows == 1


def test_processes_that_make_one_catalogue_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    go, lake = tmp_path / "go", tmp_path / "lake"
    ready = [tmp_path / f"ready{number}" for number in range(PROCESSES)]
    makers = [
        subprocess.Popen([sys.executable, CHILD, lake, one, go], stderr=subprocess.PIPE, text=True) for one in ready
    ]
    wait_until(lambda: all(one.exists() for one in ready), limit_s=120, what="the processes to be ready")
    go.touch()
    assert [maker.communicate(timeout=120)[1] for maker in makers] == [""] * PROCESSES
    catalogue = open_catalog(lake / CATALOG_FILE)
    assert {name for layer in catalogue.list_namespaces() for name in catalogue.list_tables(layer)} == {
        ("bronze", "taps"),
        *(("silver", f"taps{end}") for end in ("", "_late", "_dead")),
    }


def test_a_reader_never_finds_a_catalogue_without_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, create_tables, found = tmp_path / "lake.db", SqlCatalog.create_tables, list[bool]()

    def look_and_create(catalogue: SqlCatalog) -> None:
        found.append(file.exists())
        create_tables(catalogue)

    monkeypatch.setattr(SqlCatalog, "create_tables", look_and_create)
    (tmp_path / ".lake.db.unfinished").write_text("of a process that was killed")
    open_catalog(file).create_namespace("gold")
    assert found == [False]
    assert SqlCatalog("reader", uri=f"sqlite:///{file}").list_namespaces() == []
    assert open_catalog(file).list_namespaces() == [("gold",)]
    assert [one.name for one in tmp_path.iterdir()] == ["lake.db"]
