"""Enrichment on Spark and a broker: in real time, with a table's current rows, and its new rows after a change."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.embedded_servers.broker import EmbeddedBroker
from headrace.spark.derived_streams.derived_query import choose_lane
from headrace.spark.execution.lanes import Lane
from tests.spark.derived_stream_runner import deriving, function_of, now_ms, send_clean, wait_for_rows

MERCHANTS = {"merchant": ["m0", "m1", None], "city": ["Oslo", None, "nobody"], "since": [5, None, 7], "n": [1, 2, 3]}


def save(path: Path, columns: dict[str, list[Any]]) -> None:
    since = pa.array(columns["since"], pa.timestamp("us", "UTC"))
    pyarrow.parquet.write_table(pa.table(columns | {"since": since}), path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


def payments(begin: int, count: int) -> list[dict[str, Any]]:
    now = now_ms()
    return [
        {"id": f"p{number}", "card": "c", "merchant": f"m{number % 3}" if number % 4 else None, "n": number, "at": now}
        for number in range(begin, begin + count)
    ]


def said(row: dict[str, Any], cities: dict[str | None, str | None]) -> bool:
    """Whether a row has the table's values for its merchant."""
    known = {"m0": 1, "m1": 2}.get(row.get("merchant"))
    return row.get("city") == cities.get(row.get("merchant")) and row.get("merchants_n") == known


@pytest.mark.shows("enrichment", lane="real-time")
def test_each_event_has_what_the_table_says_and_what_it_says_after_it_changed(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    save(tmp_path / "merchants.parquet", MERCHANTS)
    stream = hr.Stream(
        "enrich_payments",
        schema="id string, card string, merchant string, n int, at timestamp",
        id="id",
        key="card",
        time="at",
        partitions=1,
    )
    known = hr.enrich(
        "enrich_known", stream, hr.Table(str(tmp_path / "merchants.parquet"), key="merchant"), on="merchant"
    )
    assert choose_lane(spark.newSession(), function_of(known)).lane is Lane.REAL_TIME
    with deriving(spark, broker.address, known, tmp_path) as pilot:
        send_clean(broker.address, stream, payments(0, 20))
        rows = wait_for_rows(broker.address, known, 20, pilot)
        assert all(said(row, {"m0": "Oslo"}) for row in rows)
        assert {row.get("since") for row in rows if row.get("merchant") == "m0"} == {"1970-01-01T00:00:00.000005Z"}
        save(tmp_path / "merchants.parquet", MERCHANTS | {"city": ["Bergen", "Rome", "nobody"]})
        for number in range(20, 200):
            send_clean(broker.address, stream, payments(number, 1))
            last = wait_for_rows(broker.address, known, number + 1, pilot)[-1]
            if last.get("city") in ("Bergen", "Rome"):
                break
        assert said(last, {"m0": "Bergen", "m1": "Rome"})
