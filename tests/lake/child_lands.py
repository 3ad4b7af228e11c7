"""Lands a stream and compacts its tables over and over, until it is killed: python -m … BROKER LAKE STREAM."""

import sys
import threading
from datetime import date
from pathlib import Path

import headrace as hr
from headrace.lake.care import Care, care_for
from headrace.lake.land import Lander, writing_session
from headrace.lake.landing import bronze, silver
from headrace.lake.table import LakeTable
from headrace.local.jars import jar_paths
from headrace.stream.session import SparkPlace, start_session
from tests.lake.gated import SCHEMA, YEARS

RECORDS_A_STEP = 20


def main(broker: str, lake: Path, name: str) -> None:
    stream = hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at", late=YEARS)
    tables = [LakeTable(lake, landing) for landing in (bronze(stream), silver(stream))]
    for table in tables:
        table.prepare()
    spark = writing_session(start_session(SparkPlace(None, 2, jar_paths("spark"), lake.with_name("scratch"))))
    landers = [Lander(spark, broker, table, RECORDS_A_STEP) for table in tables]
    threading.Thread(target=compact, args=(tables,), daemon=True).start()
    while sum(lander.land().taken for lander in landers):
        sys.stdout.write("landed\n")
        sys.stdout.flush()
    threading.Event().wait()  # all has landed: only compaction is left to be killed


def compact(tables: list[LakeTable]) -> None:
    while True:
        for table in tables:
            care_for(table.folder, Care(many_files=3), date(2026, 1, 1))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
