"""A process that makes the tables of a new lake in Iceberg as soon as it is told to; started by test_catalogue."""

import sys
import time
from pathlib import Path

import headrace as hr
from headrace.lake.formats import begin
from headrace.lake.iceberg import IcebergLog
from headrace.lake.landing import bronze, dead, late, silver
from headrace.lake.table import LakeTable

STREAM = hr.Stream("taps", schema="id string, card string, at timestamp", id="id", key="card", time="at")


def main(lake: Path, ready: Path, go: Path) -> None:
    assert IcebergLog  # imported before the start
    ready.touch()
    while not go.exists():
        time.sleep(0.0005)
    begin(lake, "iceberg")
    for landing in (bronze(STREAM), silver(STREAM), late(STREAM), dead(STREAM)):
        LakeTable(lake, landing).prepare()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
