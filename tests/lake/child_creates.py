"""A process that creates the tables of a new lake in Iceberg on a signal; started by test_catalogue."""

import sys
import time
from pathlib import Path

import headrace as hr
from headrace.lake.formats.iceberg import IcebergFormat
from headrace.lake.formats.registry import create_lake
from headrace.lake.ingestion.table_mapping import bronze_mapping, dead_letter_mapping, late_mapping, silver_mapping
from headrace.lake.lake_table import LakeTable

STREAM = hr.Stream("taps", schema="id string, card string, at timestamp", id="id", key="card", time="at")


def main(lake: Path, ready: Path, go: Path) -> None:
    assert IcebergFormat  # imported before the start
    ready.touch()
    while not go.exists():
        time.sleep(0.0005)
    create_lake(lake, "iceberg")
    for landing in (bronze_mapping(STREAM), silver_mapping(STREAM), late_mapping(STREAM), dead_letter_mapping(STREAM)):
        LakeTable(lake, landing).prepare()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
