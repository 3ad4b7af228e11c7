"""The gate reads Avro as it reads JSON, through every schema version; bytes that are no event are rejected."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf import message_factory
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.declare.streams.encoding import RecordEncoding, use_schema_lookup
from headrace.declare.streams.stream import Stream
from headrace.kafka.schema_registry.avro import to_registered_schema
from headrace.kafka.schema_registry.known_schemas import KnownSchemas
from headrace.kafka.schema_registry.protobuf import compile_schema, message_descriptor
from headrace.kafka.schema_registry.registry_client import SchemaDefinition
from headrace.kafka.schema_registry.wire_format import frame_payload
from headrace.spark.execution.app_queries import StreamingConfig, gate_spec
from headrace.spark.execution.lanes import Lane
from headrace.spark.gate.gate import apply_gate
from headrace.tiles.events.event_parser import parse_event
from tests.kafka.avro import field, known, logical, optional, schema, written

ARRIVAL_US = 1_767_225_610_000_000  # 2026-01-01T00:00:10Z
AT = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
COLUMNS = "id string, card string, amount double, n bigint, tiny tinyint, ok boolean, at timestamp"
BASE = (field("id", "string"), field("card", "string"))
V1 = schema(*BASE, field("amount", "float"), field("at", logical("timestamp-millis")))
V2 = schema(*BASE, optional("amount", "double"), field("n", "int"), field("at", logical("timestamp-micros")))
ADDRESS = {"type": "record", "name": "Address", "fields": [field("lines", {"type": "array", "items": "string"})]}
V3 = schema(
    field("at", [logical("timestamp-micros"), "null"]),
    field("address", ADDRESS),
    optional("amount", "double"),
    field("card", {"type": "enum", "name": "Card", "symbols": ["c", "d"]}),
    field("tiny", "int"),
    field("ok", "boolean"),
    field("n", "long"),
    field("id", ["null", "string"]),
)  # fmt: skip
NO_HEADERS = "cast(null as array<struct<key: string, value: binary>>)"
REGISTRY = "http://127.0.0.1:1"


def stream(columns: str | None = COLUMNS, **settings: Any) -> Stream:
    return hr.Stream(
        "taps", schema=columns, id="id", key="card", time="at", late=hr.Late("2m"), format="avro", registry=REGISTRY,
        **settings,
    )  # fmt: skip


def judged(spark: SparkSession, declared: Stream, values: Sequence[bytes | None], given: KnownSchemas) -> list[Row]:
    rows = [
        (b"k", bytearray(value) if value is not None else None, "taps", number % 2, number)
        for number, value in enumerate(values)
    ]
    raw = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset bigint")
    timed = raw.withColumn("timestamp", F.timestamp_micros(F.lit(ARRIVAL_US)))
    found = apply_gate(timed.withColumn("headers", F.expr(NO_HEADERS)), declared, given).collect()
    return sorted(found, key=lambda row: int(header(row, "offset")))


def header(row: Row, name: str) -> str:
    return {entry.key: bytes(entry.value).decode() for entry in row.headers}.get(f"headrace.{name}", "")


def fates(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(row.topic.removeprefix("taps."), header(row, "reason")) for row in rows]


def us(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def event(**changes: Any) -> dict[str, Any]:
    values = {"id": "1", "card": "c", "amount": 1.5, "n": 7, "tiny": 3, "ok": True, "at": AT}
    return {**values, "address": {"lines": ["a", "b"]}, **changes}


def test_three_versions_in_flight_are_read_as_one_stream_and_go_on_as_json(spark: SparkSession) -> None:
    given = known(V1, V2, V3)
    values = [
        written(text, event(id=str(number)), schema_id)
        for number in range(10)
        for schema_id, text in enumerate((V1, V2, V3), 1)
    ]
    rows = judged(spark, stream(), values, given)
    assert {fate for fate, _ in fates(rows)} == {"clean"}, fates(rows)
    read = [parse_event(stream().schema, bytes(row.value)) for row in rows[:3]]
    millis = AT.replace(microsecond=123000)
    assert read == [
        {"id": "0", "card": "c", "amount": 1.5, "n": None, "tiny": None, "ok": None, "at": us(millis)},
        {"id": "0", "card": "c", "amount": 1.5, "n": 7, "tiny": None, "ok": None, "at": us(AT)},
        {"id": "0", "card": "c", "amount": 1.5, "n": 7, "tiny": 3, "ok": True, "at": us(AT)},
    ]


NUMBERS = (float("nan"), float("inf"), float("-inf"), -0.0, 1e308, 5e-324, 0.1, None)
MOMENTS = (AT, datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))


def test_what_goes_on_has_every_microsecond_and_number(spark: SparkSession) -> None:
    events = [event(amount=amount, at=at, n=2**63 - 1) for amount in NUMBERS for at in MOMENTS]
    rows = judged(spark, stream(), [written(V3, one) for one in events], known(V3))
    assert {fate for fate, _ in fates(rows)} == {"clean"}
    for row, one in zip(rows, events, strict=True):
        read = parse_event(stream().schema, bytes(row.value))
        assert (repr(read["amount"]), read["at"], read["n"]) == (repr(one["amount"]), us(one["at"]), 2**63 - 1)


def test_each_time_and_each_number_is_read_by_its_own_unit(spark: SparkSession) -> None:
    units = {
        "timestamp-millis": us(AT) // 1000,
        "timestamp-micros": us(AT),
        "timestamp-nanos": us(AT) * 1000 + 789,
        "local-timestamp-micros": us(AT),
    }
    decimal = logical("decimal", "bytes", precision=12, scale=2)
    plain = {"type": "record", "name": "P"}
    texts, values = [], []
    for number, (unit, at) in enumerate(units.items(), 1):
        texts.append(json.dumps(plain | {"fields": [*BASE, field("amount", decimal), field("at", logical(unit))]}))
        # Written as the plain number: what a unit makes of it is the reader's matter.
        bare = json.dumps(plain | {"fields": [*BASE, field("amount", decimal), field("at", "long")]})
        values.append(written(bare, {"id": "1", "card": "c", "amount": Decimal("12.34"), "at": at}, number))
    texts.append(schema(*BASE, field("at", "long")))
    values.append(written(texts[-1], {"id": "1", "card": "c", "at": us(AT) // 1000}, 5))
    texts.append(schema(*BASE, field("at", "string")))
    values.append(written(texts[-1], {"id": "1", "card": "c", "at": AT.isoformat()}, 6))
    rows = judged(spark, stream(), values, known(*texts))
    read = [parse_event(stream().schema, bytes(row.value)) for row in rows]
    whole, cut = us(AT), us(AT) // 1000 * 1000
    assert [one["at"] for one in read] == [cut, whole, whole, whole, cut, whole]
    assert [one["amount"] for one in read] == [12.34] * 4 + [None] * 2


def test_bytes_that_are_no_event_are_dead_letters_as_they_came(spark: SparkSession) -> None:
    good = written(V2, event())
    huge = b"\xfe\xff\xff\xff\x0f"  # a length of 2³¹ − 1
    hostile: list[bytes | None] = [
        None,
        b"",
        b"\x00\x00",
        b'{"id": "1"}',
        good[:5],
        good[:9],
        good[:-1],
        frame_payload(1, huge),
        frame_payload(1, b"\x02a" + huge + b"x" * 100),
        frame_payload(1, b"\xff" * 40),
        frame_payload(1, b"\x01"),
        frame_payload(1, b"\x02\xff\x02c\x00\x00\x00"),
        frame_payload(2, b"{}"),
        frame_payload(3, b"{}"),
        frame_payload(9, b"x"),
        written(V3, event(id=None), 4),
        written(V3, event(tiny=200), 4),
    ]
    other = schema(*BASE, field("amount", "string"), field("at", logical("timestamp-millis")))
    lacking = schema(field("id", "string"), field("at", logical("timestamp-millis")))
    given = known(V2, other, lacking, V3).merge({9: None})
    rows = judged(spark, stream(), hostile, given)
    assert [bytes(row.value) if row.value is not None else None for row in rows] == hostile
    unread = "cannot be read as the stream's columns: field"
    text = "it is written as string, which is not read as double; declare it as string or timestamp"
    keyless = "it is not there, and is the stream's key=, which no event may leave out"
    reasons = [
        *["not-framed: the value does not begin with a zero and the four bytes of a schema's id"] * 4,
        *["not-avro: the bytes are not those of schema 1"] * 7,
        "wrong-type: column id is not a string: it is not UTF-8",
        f"incompatible-schema: id 2 {unread} amount: {text}",
        f"incompatible-schema: id 3 {unread} card: {keyless}",
        "unknown-schema: the registry knows no id 9",
        "missing-id: column id is absent or null",
        "wrong-type: column tiny is not a tinyint: 200",
    ]
    assert fates(rows) == [("dead", reason) for reason in reasons]


def test_whatever_the_bytes_each_record_has_a_fate(spark: SparkSession) -> None:
    chance, good = Random(7), written(V3, event(), 1)
    noise = [frame_payload(1, chance.randbytes(chance.randrange(60))) for _ in range(1500)]
    cut = [good[: chance.randrange(5, len(good))] for _ in range(100)]
    bent = [_bent(good, chance) for _ in range(1500)]
    rows = judged(spark, stream(), [*noise, *cut, *bent], known(V3))
    assert len(rows) == 3100
    assert {fate for fate, _ in fates(rows)} <= {"clean", "dead", "late"}
    for row in rows:
        if row.topic != "taps.dead":
            parse_event(stream().schema, bytes(row.value))


def _bent(good: bytes, chance: Random) -> bytes:
    """With some bytes of the payload changed."""
    bent = bytearray(good)
    for _ in range(chance.randrange(1, 4)):
        bent[chance.randrange(5, len(bent))] = chance.randrange(256)
    return bytes(bent)


def test_an_id_nobody_has_asked_for_fails_the_query_unless_there_are_too_many(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="headrace: schema id 4294967295"):
        judged(spark, stream(), [frame_payload(2**32 - 1, b"x")], known(V1))
    noisy = known(V1).merge(dict.fromkeys(range(1000, 1000 + KnownSchemas.MAX_MISSING + 1)))
    rows = judged(spark, stream(), [frame_payload(2**32 - 1, b"x"), written(V1, event())], noisy)
    assert fates(rows) == [("dead", "unknown-schema: the registry knows no id 4294967295"), ("clean", "")]


def test_a_stream_without_a_schema_reads_with_the_registered_defaults_and_other_names(spark: SparkSession) -> None:
    newer = schema(
        *BASE,
        field("sum", "double", aliases=["amount"]),
        field("channel", "string", default="web"),
        field("at", logical("timestamp-millis")),
    )
    with use_schema_lookup(lambda _: to_registered_schema(2, newer)):
        declared = stream(None)
    assert declared.encoding == RecordEncoding("avro", REGISTRY, "taps-value")
    assert [(one.name, one.type) for one in declared.schema] == [
        ("id", "string"), ("card", "string"), ("sum", "double"), ("channel", "string"), ("at", "timestamp"),
    ]  # fmt: skip
    rows = judged(
        spark,
        declared,
        [written(V1, event()), written(newer, event(sum=2.5, channel="shop"), 2)],
        known(V1, newer),
    )
    assert [(json.loads(bytes(row.value))["sum"], json.loads(bytes(row.value))["channel"]) for row in rows] == [
        (1.5, "web"),
        (2.5, "shop"),
    ]


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { string id = 1; }
message Payment {
  enum Kind { CARD = 0; CASH = 1; }
  string id = 1;
  string card = 2;
  optional double amount = 3;
  int64 n = 4;
  bool ok = 5;
  google.protobuf.Timestamp at = 6;
  repeated string tags = 7;
  Kind kind = 8;
}
"""
PROTO_COLUMNS = "id string, card string, amount double, n bigint, ok boolean, at timestamp, kind string"


def message(path: bytes = b"\x02\x02", **values: Any) -> bytes:
    kind = message_factory.GetMessageClass(message_descriptor(compile_schema(PROTO), (1,)))
    at = {"seconds": us(AT) // 1_000_000, "nanos": us(AT) % 1_000_000 * 1000}
    return frame_payload(1, path + kind(**({"id": "1", "card": "c", "at": at} | values)).SerializeToString())


def test_protobuf_is_read_in_micro_batches_and_goes_on_as_json(spark: SparkSession) -> None:
    # The first message type of a file is the stream's, unless a record names another.
    text = PROTO.replace("message Other { string id = 1; }\n", "")
    declared = hr.Stream(
        "taps", schema=PROTO_COLUMNS, id="id", key="card", time="at", late=hr.Late("2m"), format="protobuf",
        registry=REGISTRY,
    )  # fmt: skip
    assert gate_spec(declared, StreamingConfig("nowhere:1", Path("/nowhere")), 2).lane is Lane.MICRO_BATCH
    given = KnownSchemas({1: SchemaDefinition(1, "PROTOBUF", text)}, is_complete=True)
    values: list[bytes | None] = [
        message(b"\x00", amount=1.5, n=2**63 - 1, ok=True, kind=1, tags=["a"]),
        message(b"\x02\x00", amount=float("nan")),
        message(b"\x02\x04"),
        message(b"\x00")[:-1],
        message(b"\x00", id=""),
        frame_payload(1, b""),
        frame_payload(1, b"\xff\xff\xff\xff\xff\xff"),
        b"{}",
        frame_payload(2, b""),
    ]
    rows = judged(spark, declared, values, given)
    said = [(fate, reason.partition(":")[0]) for fate, reason in fates(rows)]
    assert said == [
        ("clean", ""), ("clean", ""), ("dead", "not-protobuf"), ("dead", "not-protobuf"), ("clean", ""),
        ("dead", "not-protobuf"), ("dead", "not-protobuf"), ("dead", "not-framed"), ("dead", "unknown-schema"),
    ]  # fmt: skip
    read = [parse_event(declared.schema, bytes(row.value)) for row in rows[:2]]
    assert read[0] == {
        "id": "1", "card": "c", "amount": 1.5, "n": 2**63 - 1, "ok": True, "at": us(AT), "kind": "CASH",
    }  # fmt: skip
    assert repr(read[1]["amount"]) == "nan"
    assert (read[1]["n"], read[1]["ok"], read[1]["kind"]) == (0, False, "CARD")
    assert bytes(rows[3].value) == values[3]


JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "card": {"type": "string"},
        "amount": {"type": ["null", "number"]},
        "at": {"type": "string", "format": "date-time"},
    },
}


def test_json_with_a_registry_is_judged_as_json_once_its_head_is_known(spark: SparkSession) -> None:
    declared = hr.Stream(
        "taps", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at",
        late=hr.Late("2m"), registry=REGISTRY,
    )  # fmt: skip
    wrong = {**JSON_SCHEMA, "properties": {**JSON_SCHEMA["properties"], "amount": {"type": "string"}}}  # type: ignore[dict-item]
    given = KnownSchemas(
        {
            1: SchemaDefinition(1, "JSON", json.dumps(JSON_SCHEMA)),
            2: SchemaDefinition(2, "JSON", json.dumps(wrong)),
            3: SchemaDefinition(3, "AVRO", V1),
        },
        is_complete=True,
    )
    event_ = json.dumps({"id": "1", "card": "c", "amount": 2.5, "at": AT.isoformat()}).encode()
    values: list[bytes | None] = [frame_payload(number, event_) for number in (1, 2, 3, 4)]
    rows = judged(spark, declared, [*values, frame_payload(1, b"{bad"), event_], given)
    assert [(fate, reason.partition(":")[0]) for fate, reason in fates(rows)] == [
        ("clean", ""), ("dead", "incompatible-schema"), ("dead", "incompatible-schema"), ("dead", "unknown-schema"),
        ("dead", "not-json"), ("dead", "not-framed"),
    ]  # fmt: skip
    assert bytes(rows[0].value) == event_
