"""Exponentially weighted means: half the weight a half-life earlier, at any time, whatever the tiles."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.tiles.online.scalar_merge import MAX_SCALAR_ROWS

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR_S = 3600

payments = hr.Stream(
    "payments", schema="id string, card string, amount double, at timestamp", id="id", key="card", time="at"
)


@hr.features(payments, by="card")
class Recent:
    seen = hr.count(windows="30d")
    recent = hr.ewm("amount", halflife="1h", windows=["1d", "30d"], hop="1h")
    large = hr.ewm("amount", halflife="1h", where="amount > 100", windows="30d", hop="1h")


def fed(*payments: tuple[int, float | None]) -> hr.testing.Fed:
    """Payments as (seconds after the start, amount)."""
    events = [
        {"id": f"p{number}", "card": "c1", "amount": _written(amount), "at": START + timedelta(seconds=second)}
        for number, (second, amount) in enumerate(payments)
    ]
    return hr.testing.feed(Recent, events)


def _written(amount: float | None) -> Any:
    return (
        amount
        if amount is None or math.isfinite(amount)
        else str(amount).replace("inf", "Infinity").replace("nan", "NaN")
    )


def at(fed: hr.testing.Fed, second: int) -> hr.testing.Row:
    return fed.at(START + timedelta(seconds=second))["c1"]


def test_a_value_a_half_life_earlier_counts_half_whenever_it_is_asked() -> None:
    two = fed((600, 10.0), (600 + HOUR_S, 40.0))
    for second in (600 + HOUR_S, 3 * HOUR_S, 20 * HOUR_S):
        assert at(two, second).recent_1d == pytest.approx((10 * 0.5 + 40) / 1.5, rel=1e-12)


def test_nothing_gives_null_and_nulls_are_passed_over() -> None:
    assert at(fed((0, None)), 60).recent_1d is None
    assert at(fed((0, 5.0), (HOUR_S, None)), HOUR_S).recent_1d == 5.0


def test_a_value_many_half_lives_before_newer_events_without_one_is_still_the_mean() -> None:
    late = fed((0, 500.0), (28 * 24 * HOUR_S, 1.0))
    row = at(late, 28 * 24 * HOUR_S)
    assert (row.large_30d, row.recent_30d) == (500.0, 1.0)


@pytest.mark.parametrize("amount", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("tiles", [1, MAX_SCALAR_ROWS + 5])
def test_what_is_not_finite_stays_as_long_as_its_tile_however_little_it_would_weigh(amount: float, tiles: int) -> None:
    recent = [(28 * 24 * HOUR_S + hour * HOUR_S, 1.0) for hour in range(tiles)]
    row = at(fed((0, amount), *recent), recent[-1][0])
    assert row.recent_30d == pytest.approx(amount, nan_ok=True)
    assert row.recent_1d == 1.0


amounts = st.floats(-1e6, 1e6) | st.none()


@given(payments=st.lists(st.tuples(st.integers(0, 40 * HOUR_S), amounts), max_size=60))
def test_it_is_the_weighted_mean_of_the_events_themselves(payments: list[tuple[int, float | None]]) -> None:
    there = [(second, amount) for second, amount in payments if amount is not None]
    found = at(fed(*payments), 41 * HOUR_S).recent_30d
    if not there:
        assert found is None
        return
    newest = max(second for second, _ in there)
    weights = [2 ** ((second - newest) / HOUR_S) for second, _ in there]
    expected = math.fsum(w * x for w, (_, x) in zip(weights, there, strict=True)) / math.fsum(weights)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-6)
