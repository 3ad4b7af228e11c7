"""Parsing an engine's result, and comparing it with the expected one."""

from collections import Counter

import orjson
import pytest

from bench.nexmark.columns import events
from bench.nexmark.generate import Shape
from bench.nexmark.live import FIRST_MEASURED, RATE, by_count, by_number
from bench.nexmark.rows import answered, difference
from headrace.kafka.record import ConsumerRecord

COLUMNS = ["auction", "ends", "bids"]


def record(offset: int, row: dict[str, object] | None, key: bytes | None = None) -> ConsumerRecord:
    value = None if row is None else orjson.dumps(row)
    return ConsumerRecord("answers", 0, offset, 1_000 * offset, key, value, None)


def row(auction: int, second: int, bids: int) -> dict[str, object]:
    return {"auction": auction, "ends": f"2026-01-01T00:00:{second:02d}Z", "bids": bids}


def test_of_rows_with_a_key_the_newest_counts_and_one_that_was_taken_back_does_not() -> None:
    records = [record(0, row(1, 10, 1), b"1"), record(1, row(2, 10, 5), b"2"), record(2, row(1, 10, 2), b"1")]
    assert answered([*records, record(3, None, b"2")], COLUMNS) == {(1, 1_767_225_610_000, 2): 1}


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T00:00:10Z", "2026-01-01 00:00:10", "2026-01-01T00:00:10.000Z", "2026-01-01T01:00:10.000000+01:00"],
)
def test_a_time_is_the_same_however_an_engine_writes_it(text: str) -> None:
    assert [*answered([record(0, {"ends": text})], ["ends"])] == [(1_767_225_610_000,)]


def test_rows_without_a_key_count_as_often_as_they_are_there() -> None:
    found = answered([record(0, row(1, 10, 1)), record(1, row(1, 10, 1))], COLUMNS)
    assert found == {(1, 1_767_225_610_000, 1): 2}


def test_a_right_answer_differs_in_nothing() -> None:
    assert difference(Counter({(1, 10, 1): 1}), [(1, 10, 1)], COLUMNS, 10) == ""


def test_a_row_too_few_one_too_many_and_one_twice_are_said() -> None:
    missing = difference(Counter({(1, 10, 1): 1}), [(1, 10, 1), (2, 10, 1)], COLUMNS, 10)
    assert missing == "1 of 2 rows missing, 0 too many: missing (2, 10, 1)"
    twice = difference(Counter({(1, 10, 1): 2}), [(1, 10, 1)], COLUMNS, 10)
    assert twice == "0 of 1 rows missing, 1 too many: too many (1, 10, 1)"
    other = difference(Counter({(1, 10, 2): 1}), [(1, 10, 1)], COLUMNS, 10)
    assert other == "1 of 1 rows missing, 1 too many: missing (1, 10, 1); too many (1, 10, 2)"


def test_windows_that_end_after_the_last_event_are_looked_at_on_neither_side() -> None:
    assert difference(Counter({(1, 10, 1): 1, (1, 30, 1): 1}), [(1, 10, 1), (1, 20, 1)], COLUMNS, 10) == ""


def bid(number: int, bidder: int, happened_ms: int) -> dict[str, int]:
    return {"number": number, "bidder": bidder, "happened_ms": happened_ms}


def test_an_answer_that_names_a_bid_is_about_that_bid() -> None:
    answers = by_number([bid(4, 1, 100), bid(5, 1, 200)])
    assert [answers({"number": 5}), answers({"number": 6})] == [200, None]


def test_an_answer_that_counts_is_about_the_last_bid_it_counts() -> None:
    day = 1_767_225_600_000
    bids = [bid(4, 1, day + 100), bid(5, 2, day + 150), bid(6, 1, day + 9_999), bid(7, 1, day + 10_000)]
    answers = by_count(bids)
    ends = ["2026-01-01T00:00:10.000Z", "2026-01-01T00:00:20.000Z"]
    asked = [(1, ends[0], 1), (1, ends[0], 2), (2, ends[0], 1), (1, ends[1], 1), (1, ends[1], 2)]
    found = [answers({"bidder": bidder, "ends": end, "bids": count}) for bidder, end, count in asked]
    assert found == [day + 100, day + 9_999, day + 150, day + 10_000, None]


def test_the_bids_that_are_measured_begin_with_a_hot_auction_of_q2() -> None:
    auctions = events(RATE, Shape(rate=RATE), FIRST_MEASURED).bids["auction"].to_numpy()
    assert (auctions % 123 == 0).mean() > 0.4
