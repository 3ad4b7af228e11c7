"""Captured changes in the gate: Debezium's envelope becomes a plain event; any other record is rejected."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.spark.gate.gate import apply_gate

ARRIVAL_US = 1_767_225_610_000_000  # 2026-01-01T00:00:10Z
COMMITTED_US = 1_767_225_600_123_456
SCHEMA = "id bigint, country string, credit double, since timestamp, tiny tinyint"
CUSTOMERS = hr.Changes("customers", schema=SCHEMA, key="id")
OLD = {"id": 7, "country": "FR", "credit": 10.5, "since": "2025-01-01T00:00:00.000001Z", "tiny": 1}
NEW = OLD | {"country": "DE", "credit": 11.0}


def envelope(op: str, before: Any, after: Any, **source: Any) -> bytes:
    place = {"lsn": 24_023_128, "ts_us": COMMITTED_US, "ts_ms": COMMITTED_US // 1000, "snapshot": "false"} | source
    return json.dumps({"before": before, "after": after, "op": op, "source": place, "ts_ms": 1}).encode()


def judged(spark: SparkSession, *values: bytes | None, stream: hr.Changes = CUSTOMERS) -> list[Row]:
    rows = [(b"k", None if value is None else bytearray(value), "customers", 0, n) for n, value in enumerate(values)]
    raw = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset bigint")
    headers = F.expr("cast(null as array<struct<key: string, value: binary>>)")
    given = raw.withColumn("timestamp", F.timestamp_micros(F.lit(ARRIVAL_US))).withColumn("headers", headers)
    return sorted(apply_gate(given, stream).collect(), key=lambda row: int(header(row, "offset")))


def header(row: Row, name: str) -> str:
    return {entry.key: bytes(entry.value).decode() for entry in row.headers}.get(f"headrace.{name}", "")


def events(rows: Sequence[Row]) -> list[dict[str, Any]]:
    assert {row.topic for row in rows} == {"customers.clean"}, [header(row, "reason") for row in rows]
    return [json.loads(bytes(row.value)) for row in rows]


def test_changes_become_plain_events_with_the_row_as_it_is_and_was(spark: SparkSession) -> None:
    created, updated, deleted, found = events(
        judged(
            spark,
            envelope("c", None, NEW),
            envelope("u", OLD, NEW),
            envelope("d", OLD, None),
            envelope("r", None, OLD, snapshot="last"),
        )
    )
    assert [one["change"] for one in (created, updated, deleted, found)] == [
        f"{24023128:019}/{op}/7" for op in ("c", "u", "d", "r")
    ]
    assert updated["country"] == "DE"
    assert updated["before_country"] == "FR"
    assert updated["before_credit"] == 10.5
    assert updated["changed_at"] == "2026-01-01T00:00:00.123456Z"
    assert updated["before_since"] == "2025-01-01T00:00:00.000001Z"
    assert created["before_country"] is None
    assert (deleted["country"], deleted["deleted"], created["deleted"]) == ("FR", True, False)
    assert found["op"] == "r"


def test_changes_arrive_when_they_were_committed_so_none_is_late(spark: SparkSession) -> None:
    (row,) = judged(spark, envelope("c", None, NEW, ts_us=1_000_000))
    assert (row.topic, header(row, "arrival")) == ("customers.clean", "1000000")


def test_numbers_that_are_not_finite_and_times_as_numbers_are_kept(spark: SparkSession) -> None:
    micros, millis = NEW | {"since": 1_735_689_600_000_001, "credit": "NaN"}, NEW | {"since": 1_735_689_600_000}
    first, second = events(judged(spark, envelope("c", None, micros), envelope("c", None, millis)))
    assert first["since"] == "2025-01-01T00:00:00.000001Z"
    assert first["credit"] == "NaN"
    assert second["since"] == "2025-01-01T00:00:00.000000Z"


def test_tombstones_are_passed_over_and_counted(spark: SparkSession) -> None:
    (row,) = judged(spark, None)
    assert (row.topic, row.key, row.value) == ("customers.dropped", None, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{bad", "not-json: "),
        (b"5", "not-json: "),
        (b'"\xff"', "not-json: "),
        (b"{}", "not-a-change: there is no op"),
        (json.dumps({"schema": {}, "payload": json.loads(envelope("c", None, NEW))}).encode(), "not-a-change: "),
        (envelope("t", None, None), "truncated: "),
        (envelope("m", None, None), "not-a-change: op is m"),
        (envelope("u", OLD, None), "not-a-change: there is no row after it"),
        (envelope("d", None, None), "not-a-change: a delete"),
        (envelope("u", OLD, NEW | {"credit": "much"}), "wrong-type: after credit is not a double: much"),
        (envelope("u", OLD | {"since": "today"}, NEW), "wrong-type: before since is not a timestamp: today"),
        (envelope("u", OLD, NEW | {"tiny": 200}), "wrong-type: after tiny is not a tinyint: 200"),
        (envelope("u", OLD, NEW | {"country": "__debezium_unavailable_value"}), "unavailable: country"),
        (envelope("c", None, NEW | {"id": None}), "missing-id: column change"),
        (envelope("c", None, NEW, lsn=None), "missing-id: column change"),
        (envelope("c", None, NEW, ts_us=None, ts_ms=None), "missing-time: column changed_at"),
        (envelope("c", None, NEW, ts_us=ARRIVAL_US + 90_000_000_000), "too-far-ahead: column changed_at"),
    ],
)
def test_what_is_no_change_is_a_dead_letter_as_it_came(spark: SparkSession, value: bytes, reason: str) -> None:
    (row,) = judged(spark, value)
    assert row.topic == "customers.dead"
    assert header(row, "reason").startswith(reason)
    assert bytes(row.value) == value


def test_changes_of_other_databases_are_known_by_their_own_places(spark: SparkSession) -> None:
    mysql = {"lsn": None, "file": "binlog.000003", "pos": 154, "row": 0}
    server = {"lsn": None, "change_lsn": "00000025:00000448:0003", "event_serial_no": 1}
    first, second = events(judged(spark, envelope("c", None, NEW, **mysql), envelope("c", None, NEW, **server)))
    assert first["change"] == f"binlog.000003:{154:019}:{0:019}:/c/7"
    assert second["change"] == f"00000025:00000448:0003:{1:019}:/c/7"


def test_the_order_of_the_changes_of_one_transaction_is_that_of_their_ids(spark: SparkSession) -> None:
    first, second = events(judged(spark, *(envelope("u", OLD, NEW, lsn=lsn) for lsn in (99_999_999, 100_000_000))))
    assert first["changed_at"] == second["changed_at"]
    assert first["change"] < second["change"]
