"""Accumulators of a window's values equal the tiles' results, in any order of updates and merges."""

import json
import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.operators.operator import InputEvent
from headrace.operators.windows.window_aggregates import WindowAggregateState, WindowAggregator
from headrace.tiles.events.event_parser import parse_timestamp_us
from headrace.tiles.finish import to_datetime

AT = "2026-01-01T00:00:00Z"
STREAM = hr.Stream(
    "values",
    schema="id bigint, k string, n bigint, x double, s string, b boolean, t timestamp, at timestamp",
    id="id",
    key="k",
    time="at",
)
COLUMNS = {"n": "integer", "x": "double", "s": "string", "t": "timestamp"}


def words(**windows: Any) -> dict[str, Any]:
    numbers = {
        f"{name}_{column}": getattr(hr, name)(column, **windows)
        for name in ("sum", "mean", "var", "stddev")
        for column in "nx"
    }
    any_kind = {
        f"{name}_{column}": getattr(hr, name)(column, **windows) for name in ("min", "max") for column in "nxst"
    }
    places = {
        f"{name}_{column}": getattr(hr, name)(column, **windows) for name in ("first", "last") for column in "nxsbt"
    }
    sketches = {f"distinct_{column}": hr.distinct(column, **windows) for column in "nsbt"}
    quantiles = {f"quantile_{share}": hr.quantile("x", share / 10, **windows) for share in (0, 5, 10)}
    counts = {"count": hr.count(**windows), "few": hr.count(where="x > 0 AND n < 5", **windows)}
    return numbers | any_kind | places | sketches | quantiles | counts


VIEW = hr.features(STREAM, by="k")(type("Values", (), words(windows="forever")))
WHAT = hr.windowed("w", STREAM, by="k", over=hr.Tumbling("1m"), **words()).out.made_by.spec  # type: ignore[attr-defined]

doubles = st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e308]))
values = st.fixed_dictionaries(
    {
        "n": st.one_of(st.none(), st.integers(-(2**53), 2**53), st.integers(-3, 3)),
        "x": doubles,
        "s": st.one_of(st.none(), st.text(max_size=3)),
        "b": st.one_of(st.none(), st.booleans()),
        "t": st.one_of(st.none(), st.integers(0, 10**15)),
        "at": st.integers(0, 5),
    }
)


def arrived(events: list[dict[str, Any]]) -> list[InputEvent]:
    return [
        InputEvent(0, number, one["at"], one["at"], 0, number, {"id": number, "k": "k", **one})
        for number, one in enumerate(events)
    ]


def by_tiles(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The view's features of the same events, times in µs again."""

    def written(value: Any) -> Any:
        return str(value).replace("inf", "Infinity").replace("nan", "NaN") if _odd(value) else value

    bodies = [
        {name: written(value) for name, value in one.items()}
        | {
            "id": number,
            "k": "k",
            "at": to_datetime(one["at"]),
            "t": None if one["t"] is None else to_datetime(one["t"]),
        }
        for number, one in enumerate(events)
    ]
    row = vars(hr.testing.feed(VIEW, bodies).at(AT)["k"])
    return {name.removesuffix("_forever"): _us(value) for name, value in row.items()}


def _odd(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _us(value: Any) -> Any:
    return parse_timestamp_us(value.isoformat()) if isinstance(value, datetime) else value


def tallied(tallies: WindowAggregator, events: list[InputEvent], cuts: list[int]) -> WindowAggregateState:
    """The events in parts, each kept and read again, then merged."""
    parts = [tallies.create_state()]
    for number, event in enumerate(events):
        if number in cuts:
            parts.append(tallies.create_state())
        tallies.add_event(parts[-1], event)
    return tallies.merge_states(
        *(tallies.decode_state(json.loads(json.dumps(tallies.encode_state(part)))) for part in parts)
    )


@given(st.lists(values, min_size=1, max_size=20), st.randoms(use_true_random=False), st.lists(st.integers(0, 20)))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_says_what_the_tiles_say(events: list[dict[str, Any]], random: Any, cuts: list[int]) -> None:
    tallies, given_events = WindowAggregator(WHAT), arrived(events)
    in_order = tallies.compute_results(tallied(tallies, given_events, []))
    random.shuffle(given_events)
    shuffled = tallies.compute_results(tallied(tallies, given_events, cuts))
    assert str(shuffled) == str(in_order)  # as text: NaN is not NaN, and the two zeros are two
    finite = [one["x"] for one in events if one["x"] is not None and math.isfinite(one["x"])]
    overflows = any(abs(value) > 1e150 for value in finite)
    expected = by_tiles(events)
    for name, value in shuffled.items():
        if overflows and name in {"sum_x", "mean_x", "var_x", "stddev_x"}:
            continue  # tiles overflow on the way, where the exact sum does not
        scale = max([abs(one) for one in finite], default=0.0)
        if name.startswith(("var", "stddev")) and name.endswith("_n"):
            scale = float(max(abs(one["n"]) for one in events if one["n"] is not None)) if value is not None else 0.0
        _assert_same(name, value, expected[name], scale)


def _assert_same(name: str, value: Any, expected: Any, scale: float) -> None:
    if name.startswith(("mean", "var", "stddev", "sum_x")) and value is not None and expected is not None:
        slack = {"var": scale * scale, "stddev": scale}.get(name.split("_", 1)[0], scale) * 1e-7
        assert np.isclose(value, expected, rtol=1e-9, atol=slack, equal_nan=True), name
    elif isinstance(value, float) and math.isnan(value):
        assert math.isnan(expected), name
    else:
        assert value == expected, name


def test_a_sum_that_no_64_bits_hold_is_null_and_comes_back() -> None:
    tallies = WindowAggregator(WHAT)
    tally = tallies.create_state()
    for event in arrived(
        [dict.fromkeys("nxsbt") | {"n": 2**63 - 1, "at": 0}, dict.fromkeys("nxsbt") | {"n": 1, "at": 0}]
    ):
        tallies.add_event(tally, event)
    assert tallies.compute_results(tally)["sum_n"] is None
    (less,) = arrived([dict.fromkeys("nxsbt") | {"n": -5, "at": 0}])
    tallies.add_event(tally, less)
    assert tallies.compute_results(tally)["sum_n"] == 2**63 - 5


def test_a_sum_does_not_depend_on_the_order_of_what_cancels_out() -> None:
    tallies = WindowAggregator(WHAT)
    for order in ([1e300, 1.0, -1e300], [1e300, -1e300, 1.0], [1.0, 1e300, -1e300]):
        tally = tallies.create_state()
        for event in arrived([dict.fromkeys("nsbt") | {"x": x, "at": 0} for x in order]):
            tallies.add_event(tally, event)
        assert tallies.compute_results(tally)["sum_x"] == 1.0


@pytest.mark.parametrize("many", [100, 5000])
def test_sketches_merge_to_what_one_sketch_has_seen(many: int) -> None:
    tallies = WindowAggregator(WHAT)
    events = arrived([dict.fromkeys("nxbt") | {"s": f"{number}", "at": 0} for number in range(many)])
    whole = tallies.compute_results(tallied(tallies, events, []))["distinct_s"]
    assert tallies.compute_results(tallied(tallies, events, [10, many // 2]))["distinct_s"] == whole
    assert abs(whole / many - 1) < 0.06


def test_nan_is_greater_than_every_number() -> None:
    tallies = WindowAggregator(WHAT)
    for order in ([math.nan, 1.0, math.inf], [1.0, math.nan, math.inf], [math.inf, 1.0, math.nan]):
        tally = tallies.create_state()
        for event in arrived([dict.fromkeys("nsbt") | {"x": x, "at": 0} for x in order]):
            tallies.add_event(tally, event)
        found = tallies.compute_results(tally)
        assert found["min_x"] == 1.0
        assert math.isnan(found["max_x"])
