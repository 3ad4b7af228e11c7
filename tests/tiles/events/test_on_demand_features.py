"""On-demand features: one expression on a view's outputs, with the same value wherever it is read."""

import math

import pytest

import headrace as hr
from headrace.tiles.events.on_demand_features import OnDemandEvaluator

payments = hr.Stream(
    "payments",
    schema="id string, card string, units bigint, amount double, country string, at timestamp",
    id="id",
    key="card",
    time="at",
)


@hr.features(payments, by="card")
class Card:
    payments = hr.count(windows=["10m", "1h"])
    units = hr.sum("units", windows="1h")
    mean = hr.mean("amount", windows="1h")
    spread = hr.var("amount", windows="1h")
    country = hr.last("country", windows="1h")
    burst = payments["10m"] / payments["1h"]
    busy = (payments["10m"] > 2) & ~(payments["1h"] > 10)
    home = hr.where(country["1h"] == "FR", 1, 0)
    scale = hr.log(mean["1h"]) + hr.sqrt(spread["1h"])
    most = hr.max(payments["10m"], units["1h"], 3)
    known = hr.coalesce(mean["1h"], -1.0)
    ratio = hr.request("amount", "double") / mean["1h"]
    left = 1 - hr.abs(-burst)


def event(number: int, **values: object) -> dict[str, object]:
    base = {"id": f"p{number}", "card": "c1", "units": 2**62, "amount": 4.0 * number, "country": "FR"}
    return base | {"at": f"2026-01-01T00:{number:02}:00Z"} | values


def test_derived_features_follow_their_outputs() -> None:
    row = hr.testing.feed(Card, [event(1), event(2), event(3)]).at("2026-01-01T00:11:30Z", {"amount": 16})["c1"]
    assert (row.payments_10m, row.payments_1h, row.burst, row.busy, row.left) == (2, 3, 2 / 3, False, 1 - 2 / 3)
    assert (row.spread_1h, row.home, row.known, row.ratio) == (16.0, 1, 8.0, 2.0)
    assert row.scale == pytest.approx(math.log(8) + 4)
    assert (row.units_1h, row.most) == (3 * 2**62, float(3 * 2**62))


def test_what_is_not_there_is_null_and_so_is_what_is_computed_from_it() -> None:
    row = hr.testing.feed(Card, []).at("2026-01-01T00:12:30Z")["never seen"]
    assert (row.burst, row.ratio, row.scale, row.left) == (None, None, None, None)
    assert (row.busy, row.home, row.most, row.known) == (False, 0, 3.0, -1.0)


@pytest.mark.parametrize(("mean", "expected"), [(math.nan, math.nan), (0.0, None), (-1.0, None), (1.0, 0.0)])
def test_a_logarithm_of_zero_and_below_is_null(mean: float, expected: float | None) -> None:
    @hr.features(payments, by="card")
    class Logs:
        mean = hr.mean("amount", windows="1h")
        logged = hr.log(mean["1h"])

    assert repr(OnDemandEvaluator(Logs).evaluate_rows([[mean]], [{}], [("c1",)])) == repr([[expected]])


def test_many_rows_are_one_computation_and_a_view_without_derived_ones_has_none() -> None:
    @hr.features(payments, by="card")
    class Plain:
        payments = hr.count(windows="1h")

    assert OnDemandEvaluator(Plain).evaluate_rows([[1], [2]], [{}, {}], [("c1",), ("c2",)]) == [[], []]
