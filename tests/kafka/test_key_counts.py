"""Counts of a stream's clean records by key, and by every other entity that views group by."""

import json
import time
from typing import Any

import headrace as hr
from headrace.aggregates.sketches.heavy_hitters import HALF_WINDOW_US, find_heavy_hitters
from headrace.kafka.key_counts import KeyColumns, StreamKeyCounts
from headrace.kafka.partition_skew import PartitionSkew, partition_skews
from headrace.kafka.record import ConsumerRecord, Partition

payments = hr.Stream(
    "payments",
    schema="id string, card string, merchant string, night boolean, at timestamp",
    id="id",
    key="card",
    time="at",
)


def record(key: bytes | None, value: Any = b"{}", partition: int = 0, ago_us: int = 0) -> ConsumerRecord:
    written = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ConsumerRecord(payments.clean, partition, 0, time.time_ns() // 1000 - ago_us, key, written, None)


def counts(keys: StreamKeyCounts, *columns: str) -> dict[str, int]:
    by: KeyColumns = columns or ("card",)
    return {one.key: one.at_least for one in find_heavy_hitters([keys.recent[by]], time.time_ns() // 1000, 100).keys}


def test_keys_are_counted_as_they_are_written_whatever_their_bytes_are() -> None:
    keys = StreamKeyCounts(payments)
    keys.count_records(
        [record(b"c1"), record(b"c1", partition=1), record("naïve".encode()), record(b"\xff\xfe"), record(b"")]
    )
    assert counts(keys) == {"c1": 2, "naïve": 1, "\\xff\\xfe": 1, "": 1}
    assert keys.last_partition("c1") == 1
    assert keys.last_partition("nobody") is None


def test_a_long_key_counts_and_is_found_by_its_beginning() -> None:
    keys = StreamKeyCounts(payments)
    keys.count_records([record(b"k" * 500, partition=3), record(b"k" * 501, partition=3)])
    assert counts(keys) == {"k" * 128: 2}
    assert keys.last_partition("k" * 128) == 3


def test_a_record_without_a_key_has_its_columns() -> None:
    keys = StreamKeyCounts(payments)
    keys.count_records([record(None, {"card": "c7"}), record(b"c7")])
    assert counts(keys) == {"c7": 2}


def test_entities_of_views_are_counted_unless_a_column_is_null() -> None:
    keys = StreamKeyCounts(payments, [("merchant",), ("merchant", "night"), ("card",)])
    events = [{"merchant": "m1", "night": True}, {"merchant": "m1", "night": False}, {"merchant": "m1"}, {}]
    keys.count_records([record(b"c1", event) for event in events])
    assert counts(keys, "merchant") == {"m1": 3}
    assert counts(keys, "merchant", "night") == {'["m1",true]': 1, '["m1",false]': 1}
    assert counts(keys) == {"c1": 4}


def test_what_is_no_event_stops_nobody() -> None:
    keys = StreamKeyCounts(payments, [("merchant",)])
    hostile = [b"", b"[]", b"NaN", b'{"merchant": ["a"]}', b'{"merchant": {"b": 1}}', b"\xff", b'{"merchant": 7}']
    keys.count_records([record(b"c", value) for value in hostile])
    assert counts(keys)["c"] == len(hostile)
    assert counts(keys, "merchant")["7"] == 1


def test_records_from_before_the_window_are_not_counted_and_still_tell_when_the_stream_began() -> None:
    keys = StreamKeyCounts(payments)
    keys.count_records([record(b"c1", ago_us=9 * HALF_WINDOW_US), record(b"c2")])
    assert counts(keys) == {"c2": 1}
    assert find_heavy_hitters([keys.recent["card",]], time.time_ns() // 1000, 1).seconds > HALF_WINDOW_US / 1e6


def test_the_busiest_partition_is_told_against_the_mean() -> None:
    added = {Partition("payments", number): records for number, records in enumerate((8, 3, 2, 3))}
    added[Partition("quiet", 0)] = 0
    (found,) = partition_skews(added, ["payments", "quiet", "missing"])
    assert found == PartitionSkew("payments", 4, 16, 0, 0.5)
    assert found.skew == 2
