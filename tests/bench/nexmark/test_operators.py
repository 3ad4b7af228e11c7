"""Headrace's own windows and join over Nexmark's events return the rows of DuckDB."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.nexmark.app import q11, q12, q17, q20
from bench.nexmark.columns import Events, ended
from bench.nexmark.generate import Shape
from bench.nexmark.oracle import Row, answers
from headrace.declare.operations.derived_stream import DerivedStream, StreamOperation
from headrace.declare.operations.windowed_stream import WindowOutputs
from headrace.operators.factory import create_operator
from headrace.operators.operator import InputEvent, Key, OutputEvent, advance_operator

DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def events() -> Events:
    return ended(20_000, Shape(rate=200, group=16))


def made(out: DerivedStream, events: Events) -> Iterator[tuple[Key, OutputEvent]]:
    """The results over all events, key by key, once the clock has passed them by weeks."""
    operation = out.made_by
    assert isinstance(operation, StreamOperation)
    operator, by_key = create_operator(operation), dict[Key, list[InputEvent]]()
    for source, (stream, (column,)) in enumerate(zip(operation.inputs, operation.by, strict=True)):
        for offset, event in enumerate(getattr(events, stream.name).to_pylist()):
            by_key.setdefault((event[column],), []).append(arrived(source, event, offset))
    clock_us = max(event.arrival_us for of_key in by_key.values() for event in of_key) + 30 * DAY_US
    for key, of_key in by_key.items():
        made_of_key = advance_operator(operator, key, operator.create_state(), of_key, clock_us)
        yield from ((key, one) for one in made_of_key if one.output == "out")


def arrived(source: int, event: dict[str, Any], offset: int) -> InputEvent:
    time_us = 1_000 * event["happened_ms"]
    times = {name: 1_000 * value for name, value in event.items() if name.endswith("_ms")}
    return InputEvent(source, event["number"], time_us, time_us, 0, offset, event | times)


def rows(windowed: WindowOutputs, events: Events, columns: list[str], first: list[str]) -> list[Row]:
    """The last row of each key and window, as an oracle writes them."""
    last: dict[tuple[object, ...], Row] = {}
    for key, one in made(windowed.out, events):
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


def test_bids_joined_with_their_auction_are_those_of_duckdb(events: Events) -> None:
    columns, wanted = answers(events, "q20")
    names = {"happened": "happened_ms", "opened": "auctions_happened_ms", "expires": "expires_ms"}
    joined = [one.values for _, one in made(q20.out, events) if one.values["category"] == 10]
    found = [tuple(row[names.get(name, name)] for name in columns) for row in joined]
    in_us = [
        tuple(1_000 * value if name in names else value for name, value in zip(columns, row, strict=True))
        for row in wanted
    ]
    assert sorted(found) == sorted(in_us)
