"""The gate on Spark equals the gate in plain Python, whatever the bytes."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.declare.streams.stream import LatePolicy, Stream
from headrace.spark.gate.gate import apply_gate
from headrace.tiles.events.record_classification import RawRecord, classify_records

ARRIVAL_US = 1_767_225_610_000_000  # 2026-01-01T00:00:10Z
SCHEMA = "id string, card string, amount double, n bigint, small int, tiny tinyint, ok boolean, at timestamp"


def stream(late: hr.Late, check: str | None = "amount >= 0") -> Stream:
    return hr.Stream("taps", schema=SCHEMA, id="id", key="card", time="at", late=late, check=check)


def written(**changes: Any) -> bytes:
    event = {"id": "1", "card": "c", "amount": 1.0, "n": 1, "small": 1, "ok": True, "at": "2026-01-01T00:00:00Z"}
    return json.dumps({**event, **changes}).encode()


HOSTILE: list[bytes | None] = [
    written(),
    b"{bad",
    b"",
    None,
    b"   ",
    b'{"id":"\xff\xfe","card":"c","at":"2026-01-01T00:00:00Z"}',
    written()[:30],
    b"[" + written() + b"]",
    b"5",
    b"null",
    b'"x"',
    b"{}",
    written() + b" xyz",
    written() + written(),
    b'{"id":"1","card":"c","at":"2026-01-01T00:00:00Z","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"[" * 100_000,
    *(written(card="deep").replace(b'"deep"', b"[" * depth + b"]" * depth) for depth in (100, 500, 1001, 5000)),
    *(written(amount="deep").replace(b'"deep"', b'{"a":' * depth + b"1" + b"}" * depth) for depth in (100, 500, 5000)),
    written(card="x" * 900_000),
    *(written(amount=value) for value in (float("nan"), float("inf"), float("-inf"), "NaN", "Infinity", "-Infinity")),
    *(written(amount=value) for value in ("abc", "1.5", "", True, [], {}, 5, -1, -0.0, None, 1e308)),
    written().replace(b'"amount": 1.0', b'"amount": 1e400'),
    *(written(n=value) for value in (2**63, 2**63 - 1, -(2**63), 5.0, "5", True, None)),
    *(written(small=value) for value in (2**31, 2**31 - 1, -(2**31), -(2**31) - 1)),
    *(written(tiny=value) for value in (127, -128, 128, 200, -129, 1.0)),
    *(written(ok=value) for value in ("true", 1, 0, None, False)),
    b"{'id': '1', 'card': 'c', 'at': '2026-01-01T00:00:00Z'}",
    *(
        written(card=value)
        for value in ({"a": 1}, [1, "x"], {}, 1.5, 5, True, "", "a\u0000b", "é", "日本", "🙂", "'\"\\", None)
    ),
    *(written(id=value) for value in ("", None, 7)),
    b'{"card":"c","at":"2026-01-01T00:00:00Z"}',
    *(
        written(at=value)
        for value in (
            1_767_225_600_000,
            "1767225600000",
            -1,
            10**18,
            10**30,
            "12:00",
            "99999-01-01T00:00:00Z",
            "2026-01-01",
            "2026-01-01T01:00:00+01:00",
            "2026-01-01T01:00:00+99:00",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00",
            "2026-01-01T00:00:00.123456789Z",
            "2026-01-01T00:00:00.5Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z\n",
            " 2026-01-01T00:00:00Z",
            "٢026-01-01T00:00:00Z",
            "",
            True,
            None,
            "2026-01-01T00:01:10Z",
            "2026-01-01T00:01:10.000001Z",
            "2025-12-31T23:58:10Z",
            "2025-12-31T23:58:09.999999Z",
            "2025-12-31T23:00:10Z",
            "2025-12-31T23:00:09Z",
        )
    ),
]


NO_HEADERS = "cast(null as array<struct<key: string, value: binary>>)"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def judged(
    spark: SparkSession, declared: Stream, values: Sequence[bytes | None], headers: str = NO_HEADERS
) -> list[Row]:
    rows = [
        (b"k", bytearray(value) if value is not None else None, "taps", number % 2, number)
        for number, value in enumerate(values)
    ]
    raw = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset bigint")
    given = raw.withColumn("timestamp", F.timestamp_micros(F.lit(ARRIVAL_US))).withColumn("headers", F.expr(headers))
    return sorted(apply_gate(given, declared).collect(), key=lambda row: int(header(row, "offset")))


def header(row: Row, name: str) -> str:
    return {entry.key: bytes(entry.value).decode() for entry in row.headers}.get(f"headrace.{name}", "")


@pytest.mark.parametrize(
    "late",
    [hr.Late("2m"), hr.Late("2m", then="drop"), hr.Late("30s", then="update", until="1h")],
    ids=["side_output", "drop", "update"],
)
def test_every_record_has_the_fate_and_reason_plain_python_gives_it(spark: SparkSession, late: hr.Late) -> None:
    declared = stream(late)
    verdicts = classify_records(declared, [RawRecord(value, ARRIVAL_US) for value in HOSTILE])
    rows = judged(spark, declared, HOSTILE)
    assert [(row.topic, header(row, "reason")) for row in rows] == [
        (f"taps.{verdict.fate}", verdict.reason or "") for verdict in verdicts
    ]
    assert {row.topic for row in rows} == {
        "taps.clean",
        "taps.dead",
        f"taps.{'dropped' if late.then == 'drop' else 'late'}",
    }


CHECKS = ["amount >= 0", "not (amount < 0)", "amount < 100", "amount between 0 and 1e9", "amount = amount"]
NOT_FINITE = [written(amount=value) for value in (math.nan, math.inf, -math.inf, "NaN", "Infinity", "-Infinity")]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_sees_nan_and_infinities_as_plain_python_does(spark: SparkSession, check: str) -> None:
    declared = stream(hr.Late("2m"), check)
    fates = [
        f"taps.{one.fate}" for one in classify_records(declared, [RawRecord(value, ARRIVAL_US) for value in NOT_FINITE])
    ]
    assert [row.topic for row in judged(spark, declared, NOT_FINITE)] == fates


RECORDED: list[bytes | None] = [
    *HOSTILE,
    *(
        written(at=at, seen=seen)
        for at in ("2013-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:01:10.000001Z", None)
        for seen in (
            "2013-01-01T00:00:00Z",
            "2012-12-31T23:59:00Z",
            "2012-12-31T23:58:59.999999Z",
            "2013-01-01T00:02:00Z",
            "2013-01-01T00:02:00.000001Z",
            "2026-01-01T00:01:10Z",
            "2026-01-01T00:01:10.000001Z",
            "9999-12-31T23:59:59Z",
            "0001-01-01T00:00:00Z",
            1_356_998_400_000,
            "soon",
            True,
            None,
        )
    ),
]


@pytest.mark.parametrize("then", ["side_output", "drop"])
def test_with_an_arrival_of_its_own_a_record_has_the_fate_plain_python_gives_it(
    spark: SparkSession, then: LatePolicy
) -> None:
    declared = hr.Stream(
        "taps", schema=f"{SCHEMA}, seen timestamp", id="id", key="card", time="at", arrival="seen",
        late=hr.Late("2m", then=then), check="amount >= 0",
    )  # fmt: skip
    verdicts = classify_records(declared, [RawRecord(value, ARRIVAL_US) for value in RECORDED])
    rows = judged(spark, declared, RECORDED)
    assert [(row.topic, header(row, "reason")) for row in rows] == [
        (f"taps.{verdict.fate}", verdict.reason or "") for verdict in verdicts
    ]
    arrivals = [verdict.event["seen"] if verdict.event else None for verdict in verdicts]
    assert [int(header(row, "arrival")) for row in rows] == [
        ARRIVAL_US if arrival_us is None else arrival_us for arrival_us in arrivals
    ]
    reasons = {(verdict.reason or verdict.fate).split(" is ")[0] for verdict in verdicts}
    assert {
        "clean",
        "missing-arrival: column seen",
        "too-far-ahead: column at",
        "too-far-ahead: column seen",
    } <= reasons


def sent(name: str, value: str) -> str:
    return f"struct('{name}' as key, cast('{value}' as binary) as value)"


def test_the_trace_a_record_is_part_of_goes_with_it_and_no_other_header_does(spark: SparkSession) -> None:
    other, short = sent("other", "1"), sent("traceparent", TRACE[:-1])
    several = f"array({other}, {sent('traceparent', TRACE)}, {sent('traceparent', TRACE.upper())})"
    headers = f"case offset when 0 then {several} when 1 then array({other}) when 2 then array({short}) end"
    for values in ([written()] * 4, [b"no JSON"] * 4):
        rows = judged(spark, stream(hr.Late("2m")), values, headers)
        names = [[entry.key for entry in row.headers if not entry.key.startswith("headrace.")] for row in rows]
        assert names == [["traceparent"], [], [], []]
        assert [bytes(entry.value).decode() for entry in rows[0].headers if entry.key == "traceparent"] == [TRACE]
        assert all([entry.key for entry in row.headers[:2]] == ["headrace.offset", "headrace.arrival"] for row in rows)


def test_outputs_keep_bytes_key_and_place_and_dropped_ones_only_their_place(spark: SparkSession) -> None:
    rows = judged(spark, stream(hr.Late("2m", then="drop")), HOSTILE)
    assert len(rows) == len(HOSTILE)
    for number, (row, value) in enumerate(zip(rows, HOSTILE, strict=True)):
        kept = row.topic != "taps.dropped"
        assert (row.value is not None and bytes(row.value)) == (value if kept and value is not None else False)
        assert row.partition == number % 2
        assert header(row, "offset") == str(number)
        assert header(row, "arrival") == str(ARRIVAL_US)
        assert row.headers[0].key == "headrace.offset"
        assert row.headers[1].key == "headrace.arrival"


def test_a_dead_letter_says_where_it_stood(spark: SparkSession) -> None:
    (row,) = judged(spark, stream(hr.Late("2m")), [b"{bad"])
    assert (header(row, "topic"), header(row, "partition"), header(row, "offset")) == ("taps", "0", "0")


def test_only_a_derived_stream_is_told_of_rows_that_raised(spark: SparkSession) -> None:
    taps = stream(hr.Late("2m"))
    derived = hr.derive(taps, name="derived")(lambda taps: taps)
    raised = "array(named_struct('key', 'headrace.raised', 'value', cast('no (taps.clean-0@7)' as binary)))"
    (row,) = judged(spark, derived, [written()], raised)
    assert (row.topic, header(row, "reason")) == ("derived.dead", "raised: no (taps.clean-0@7)")
    assert judged(spark, taps, [written()], raised)[0].topic == "taps.clean"
    assert judged(spark, derived, [written(known_at="2026-01-01T00:00:10Z")])[0].topic == "derived.clean"
