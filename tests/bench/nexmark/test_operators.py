"""Headrace's own windows over Nexmark's bids: their rows are those of DuckDB."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.nexmark.app import q11, q12, q17
from bench.nexmark.columns import Events, ended
from bench.nexmark.generate import Shape
from bench.nexmark.oracle import Row, answers
from headrace.declare.derivation import Operation
from headrace.declare.windowed import Windowed
from headrace.operators.of import operator_of
from headrace.operators.operator import Arrived, Key, Made, step

DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def events() -> Events:
    return ended(20_000, Shape(rate=200, group=16))


def made(windowed: Windowed, events: Events) -> Iterator[tuple[Key, Made]]:
    """The results over all bids, key by key, once the clock has passed them by two days."""
    operation = windowed.out.made_by
    assert isinstance(operation, Operation)
    operator, ((column,),) = operator_of(operation), operation.by
    by_key: dict[Key, list[Arrived]] = {}
    for offset, bid in enumerate(events.bids.to_pylist()):
        by_key.setdefault((bid[column],), []).append(arrived(bid, offset))
    clock_us = max(1_000 * bid for bid in events.bids["happened_ms"].to_pylist()) + 2 * DAY_US
    for key, of_key in by_key.items():
        made_of_key = step(operator, key, operator.begin(), of_key, clock_us)
        yield from ((key, one) for one in made_of_key if one.output == "out")


def arrived(bid: dict[str, Any], offset: int) -> Arrived:
    time_us = 1_000 * bid["happened_ms"]
    return Arrived(0, bid["number"], time_us, time_us, 0, offset, bid | {"happened_ms": time_us})


def rows(windowed: Windowed, events: Events, columns: list[str], first: list[str]) -> list[Row]:
    """The last row of each key and window, as an oracle writes them."""
    last: dict[tuple[object, ...], Row] = {}
    for key, one in made(windowed, events):
        values = one.values | {"key": key[0]}
        times = {"starts": values["window_start"] // 1_000, "ends": values["window_end"] // 1_000}
        said = [(times | values)[name] for name in first]
        last[key[0], values["window_start"]] = (*said, *(values[name] for name in columns[len(first) :]))
    return sorted(last.values())


def test_sessions_are_those_of_duckdb(events: Events) -> None:
    columns, wanted = answers(events, "q11")
    assert rows(q11, events, columns, ["key", "starts", "ends"]) == sorted(wanted)


def test_counts_of_ten_seconds_are_those_of_duckdb(events: Events) -> None:
    columns, wanted = answers(events, "q12")
    assert rows(q12, events, columns, ["key", "ends"]) == sorted(wanted)


def test_statistics_of_a_day_told_at_each_bid_end_as_those_of_duckdb(events: Events) -> None:
    columns, wanted = answers(events, "q17")
    without_day = sorted((row[0], *row[2:]) for row in wanted)
    found = rows(q17, events, [columns[0], *columns[2:]], ["key"])
    assert found == [pytest.approx(row, rel=1e-12) for row in without_day]
