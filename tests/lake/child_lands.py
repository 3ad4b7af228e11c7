"""Lands a stream and compacts its tables in a loop until it is killed: python -m … BROKER LAKE STREAM."""

import sys
import threading
from datetime import date
from pathlib import Path

import headrace as hr
from headrace.embedded_servers.jars import jar_paths
from headrace.lake.ingestion.ingest_step import TableIngester, new_write_session
from headrace.lake.ingestion.table_mapping import bronze_mapping, silver_mapping
from headrace.lake.lake_table import LakeTable
from headrace.lake.maintenance import MaintenanceConfig, maintain_table
from headrace.spark.session.session import SparkSessionConfig, start_session
from tests.lake.batch_gate import SCHEMA, YEARS

RECORDS_A_STEP = 20


def main(broker: str, lake: Path, name: str) -> None:
    stream = hr.Stream(name, schema=SCHEMA, id="id", key="card", time="at", late=YEARS)
    tables = [LakeTable(lake, landing) for landing in (bronze_mapping(stream), silver_mapping(stream))]
    for table in tables:
        table.prepare()
    spark = new_write_session(start_session(SparkSessionConfig(None, 2, jar_paths("spark"), lake.with_name("scratch"))))
    landers = [TableIngester(spark, broker, table, RECORDS_A_STEP) for table in tables]
    threading.Thread(target=compact, args=(tables,), daemon=True).start()
    while sum(lander.ingest().ingested for lander in landers):
        sys.stdout.write("landed\n")
        sys.stdout.flush()
    threading.Event().wait()  # all has landed: only compaction is left to be killed


def compact(tables: list[LakeTable]) -> None:
    while True:
        for table in tables:
            maintain_table(table.folder, MaintenanceConfig(min_files_to_compact=3), date(2026, 1, 1))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
