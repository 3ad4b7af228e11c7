import json
import math
from typing import Any

import pytest

import headrace as hr
from headrace.declare.streams.stream import Stream
from headrace.tiles.events.event_parser import parse_event, parse_timestamp_us
from headrace.tiles.events.record_classification import ClassificationResult, RawRecord, classify_records

SCHEMA = (
    "id string, card string, n bigint, i int, t tinyint, x double, f float, b boolean, seen timestamp, at timestamp"
)
EVENT = {"id": "p1", "card": "c1", "at": "2026-01-01T00:00:00Z"}
AT_US = 1_767_225_600_000_000
SECOND_US = 1_000_000


def stream(late: hr.Late | None = None, check: str | None = None) -> Stream:
    return Stream("payments", schema=SCHEMA, id="id", key="card", time="at", late=late, check=check)


def verdict(value: Any, on: Stream | None = None, delay_us: int = 0) -> ClassificationResult:
    written = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return classify_records(on or stream(), [RawRecord(written, AT_US + delay_us)])[0]


def read(**fields: Any) -> dict[str, Any]:
    return parse_event(stream().schema, json.dumps(EVENT | fields).encode())


@pytest.mark.parametrize(
    ("written", "expected_us"),
    [
        ("2026-01-01T00:00:00Z", AT_US),
        ("2026-01-01T00:00:00", AT_US),
        ("2026-01-01 00:00", AT_US),
        ("2026-01-01T05:30:00+05:30", AT_US),
        ("2025-12-31T16:00:00.5-08:00", AT_US + 500_000),
        ("2026-01-01T00:00:00.123456789Z", AT_US + 123_456),
        ("1969-12-31T23:59:59.999999Z", -1),
        (1_767_225_600_000, AT_US),
        (-1, -1_000),
    ],
)
def test_a_timestamp_is_iso_8601_or_epoch_milliseconds(written: str | int, expected_us: int) -> None:
    assert read(seen=written)["seen"] == expected_us


@pytest.mark.parametrize(
    "text",
    ["noon", "", "2026-01-01", "12:00", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
     "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890Z", "2026-01-01T00:00:00+19:00", "2026-01-01T00:00:00 Z",
     "2026-1-1T00:00:00Z", "2026-01-01T00:00:00+0530", "1.5", "1e3", "2026-01-01T00:00:00Z\n", "٢٠٢٦-01-01T00:00:00Z"],
)  # fmt: skip
def test_anything_else_is_no_timestamp(text: str) -> None:
    assert parse_timestamp_us(text) is None
    assert verdict(EVENT | {"seen": text}).reason == f"wrong-type: column seen is not a timestamp: {text}"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"n": 2**63 - 1}, {"n": 2**63 - 1}),
        ({"i": -(2**31)}, {"i": -(2**31)}),
        ({"x": 5}, {"x": 5.0}),
        ({"x": "NaN"}, {"x": math.nan}),
        ({"x": math.nan}, {"x": math.nan}),
        ({"x": "-Infinity"}, {"x": -math.inf}),
        ({"f": 0.1}, {"f": 0.10000000149011612}),
        ({"f": 1e300}, {"f": math.inf}),
        ({"card": 5}, {"card": "5"}),
        ({"card": 1.50}, {"card": "1.5"}),
        ({"card": True}, {"card": "true"}),
        ({"card": {"a": 1}}, {"card": '{"a":1}'}),
        ({"card": ["c1", None]}, {"card": '["c1",null]'}),
        ({"b": False}, {"b": False}),
        ({"unknown": [1, {"a": 2}]}, {}),
        ({"n": None}, {"n": None}),
    ],
)
def test_a_value_is_read_as_its_column_says(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    found = read(**fields)
    assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_a_number_in_a_text_column_keeps_its_digits() -> None:
    found = parse_event(stream().schema, b'{"id": 1.50, "card": 12345678901234567890123, "at": 0}')
    assert (found["id"], found["card"]) == ("1.50", "12345678901234567890123")


def test_absent_columns_are_null() -> None:
    assert read()["n"] is None


@pytest.mark.parametrize(
    "fields",
    [{"n": 5.0}, {"n": "5"}, {"n": 2**63}, {"n": True}, {"i": 2**31}, {"t": 128}, {"x": "5"}, {"x": True}, {"x": ""},
     {"b": 1}, {"b": "true"}, {"seen": 1.5}, {"seen": True}, {"seen": {}}],
)  # fmt: skip
def test_what_does_not_fit_its_column_is_a_dead_letter_that_names_it(fields: dict[str, Any]) -> None:
    found = verdict(EVENT | fields)
    (column,) = fields
    assert found.fate == "dead"
    assert found.reason is not None
    assert found.reason.startswith(f"wrong-type: column {column} is not a ")


@pytest.mark.parametrize(
    "value", [None, b"", b"not json", b"[]", b"5", b"null", b"{}{}", b'{"id": "\xff"}', b'{"id": 1,}', b"[" * 100_000]
)
def test_what_is_not_one_json_object_is_a_dead_letter(value: bytes | None) -> None:
    assert verdict(value).reason == "not-json: the value is not one JSON object in UTF-8"


@pytest.mark.parametrize(("part", "column"), [("id", "id"), ("key", "card"), ("time", "at")])
def test_an_event_needs_its_id_key_and_time(part: str, column: str) -> None:
    assert verdict(EVENT | {column: None}).reason == f"missing-{part}: column {column} is absent or null"


def test_only_a_check_that_is_false_fails() -> None:
    positive = stream(check="x > 0")
    assert verdict(EVENT | {"x": 1}, positive).fate == "clean"
    assert verdict(EVENT, positive).fate == "clean"
    assert verdict(EVENT | {"x": -1}, positive).reason == "failed-check: x > 0"


def test_each_record_of_many_is_judged_by_itself() -> None:
    records = [b"x", json.dumps(EVENT | {"x": -1}).encode(), json.dumps(EVENT | {"x": 1}).encode()]
    verdicts = classify_records(stream(check="x > 0"), [RawRecord(value, AT_US) for value in records])
    assert [found.fate for found in verdicts] == ["dead", "dead", "clean"]


@pytest.mark.parametrize(
    ("late", "fates"),
    [
        (hr.Late("1m", then="drop"), ["clean", "clean", "dropped", "dropped"]),
        (hr.Late("1m", then="side_output"), ["clean", "clean", "late", "late"]),
        (hr.Late("1m", then="update", until="5m"), ["clean", "clean", "clean", "late"]),
    ],
)
def test_lateness_is_judged_by_the_policy(late: hr.Late, fates: list[str]) -> None:
    delays_us = [0, 60 * SECOND_US, 60 * SECOND_US + 1, 300 * SECOND_US + 1]
    assert [verdict(EVENT, stream(late), delay_us).fate for delay_us in delays_us] == fates


def test_an_event_from_too_far_ahead_is_a_dead_letter() -> None:
    assert verdict(EVENT, delay_us=-60 * SECOND_US).fate == "clean"
    reason = verdict(EVENT, delay_us=-60 * SECOND_US - 1).reason
    assert reason == "too-far-ahead: column at is more than 1m after its arrival"


def test_judgement_stops_at_the_first_objection() -> None:
    checked = stream(hr.Late("1m", then="drop"), check="x > 0")
    assert "wrong-type" in str(verdict({"n": "5", "x": -1}, checked, 10**12).reason)
    assert "missing-id" in str(verdict({"x": -1}, checked, 10**12).reason)
    assert "failed-check" in str(verdict(EVENT | {"x": -1}, checked, 10**12).reason)


@pytest.mark.parametrize("appended_us", [1, 60 * SECOND_US, 10**9 * SECOND_US])
def test_a_declared_arrival_is_what_lateness_is_judged_by_whenever_the_log_took_the_record(appended_us: int) -> None:
    recorded = Stream(
        "payments", schema=SCHEMA, id="id", key="card", time="at", arrival="seen", late=hr.Late("1m", then="drop")
    )
    seen = ["2025-12-31T23:59:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:01:00.000001Z"]
    fates = [verdict(EVENT | {"seen": time}, recorded, appended_us).fate for time in seen]
    assert fates == ["clean", "clean", "dropped"]


def test_a_declared_arrival_must_be_there_and_neither_before_the_event_nor_after_the_log() -> None:
    recorded = Stream("payments", schema=SCHEMA, id="id", key="card", time="at", arrival="seen")
    assert verdict(EVENT, recorded).reason == "missing-arrival: column seen is absent or null"
    before = verdict(EVENT | {"seen": "2025-12-31T23:58:59.999999Z"}, recorded)
    assert before.reason == "too-far-ahead: column at is more than 1m after its arrival"
    after = verdict(EVENT | {"seen": "2026-01-01T00:01:00.000001Z"}, recorded)
    assert after.reason == "too-far-ahead: column seen is more than 1m after the log took it"
