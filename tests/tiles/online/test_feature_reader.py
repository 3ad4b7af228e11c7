import math
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace as hr
from headrace.declare.features.view import View
from headrace.tiles.fold import fold_into_tiles, to_event_columns
from headrace.tiles.layout import hop_layouts
from headrace.tiles.online.feature_reader import FeatureReader
from headrace.tiles.online.tile_rows import TileRows
from tests.tiles.views import MINUTE_US, Numbers, Objects, payments

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def rows_of(view: View, events: list[dict[str, Any]]) -> list[TileRows | None]:
    """The tiles of one card."""
    whole = [dict.fromkeys(payments.schema.names) | {"id": f"p{i}", "card": "c1"} | e for i, e in enumerate(events)]
    layouts = hop_layouts(view)
    rows = {layout.hop_us: TileRows(layout) for layout in layouts}
    for key, tile in fold_into_tiles(view, to_event_columns(view, payments, whole, [0] * len(whole))):
        rows[key.hop_us].apply(tile)
    return list(rows.values())


def read(view: View, events: list[dict[str, Any]], at_us: int) -> dict[str, Any]:
    return dict(zip(view.names, FeatureReader(view).read_values(rows_of(view, events), at_us), strict=True))


def amounts(*values: float) -> list[dict[str, Any]]:
    return [{"amount": value, "at": minute * MINUTE_US} for minute, value in enumerate(values)]


def test_an_entity_never_seen_has_counts_of_zero_and_nulls() -> None:
    assert FeatureReader(Numbers).default_row == [0, None, None, None, None, None]
    assert FeatureReader(Objects).default_row == [None, None, 0, None]
    assert FeatureReader(Numbers).read_values([None], 0) == FeatureReader(Numbers).default_row


def test_the_default_row_is_a_copy_that_nobody_can_spoil() -> None:
    reader = FeatureReader(Numbers)
    reader.read_values([None], 0)[0] = 99
    assert reader.default_row[0] == 0


def test_a_window_without_events_is_a_window_never_seen() -> None:
    assert read(Numbers, amounts(1.0, 2.0), 500 * MINUTE_US) == dict(
        zip(Numbers.names, FeatureReader(Numbers).default_row, strict=True)
    )


def test_a_window_is_never_short_and_at_most_one_hop_too_long() -> None:
    events = amounts(*[1.0] * 100)
    assert read(Numbers, events, 80 * MINUTE_US)["number_1h"] == 61
    assert read(Numbers, events, 81 * MINUTE_US - 1)["number_1h"] == 61
    assert read(Numbers, events, 0)["number_1h"] == 1
    assert read(Numbers, events, -1)["number_1h"] == 0


def test_one_value_has_no_standard_deviation() -> None:
    assert read(Numbers, amounts(5.0), 0)["spread_1h"] is None
    assert read(Numbers, amounts(5.0, 5.0), MINUTE_US)["spread_1h"] == 0.0


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_spreads_as_it_does_in_spark_and_warns_nobody(odd: float) -> None:
    found = read(Numbers, amounts(1.0, odd, 3.0), 5 * MINUTE_US)
    assert found["spend_1h"] == pytest.approx(odd, nan_ok=True)
    assert math.isnan(found["spread_1h"])
    assert found["least_1h"] == (-math.inf if odd == -math.inf else 1.0)
    assert found["most_1h"] == pytest.approx(3.0 if odd == -math.inf else odd, nan_ok=True)


def test_infinities_of_both_signs_sum_to_nan() -> None:
    assert math.isnan(read(Numbers, amounts(math.inf, -math.inf), MINUTE_US)["spend_1h"])


def test_integers_are_summed_beyond_64_bits() -> None:
    events = [{"units": 2**63 - 1, "at": minute * MINUTE_US} for minute in range(3)]
    assert read(Numbers, events, 5 * MINUTE_US)["units_1h"] == 3 * (2**63 - 1)
    events = [{"units": -(2**63), "at": minute * MINUTE_US} for minute in range(3)]
    assert read(Numbers, events, 5 * MINUTE_US)["units_1h"] == -3 * 2**63


def test_a_sum_of_great_and_small_deviations_keeps_its_digits() -> None:
    found = read(Numbers, amounts(1e9 + 1, 1e9 + 2, 1e9 + 3), 5 * MINUTE_US)
    assert found["spread_1h"] == pytest.approx(1.0, rel=1e-12)


def test_times_are_moments_in_utc() -> None:
    events = [{"amount": 1.0, "seen": -1, "shop": "b", "at": 0}, {"amount": None, "seen": None, "shop": "", "at": 1}]
    assert read(Objects, events, MINUTE_US) == {
        "first_1h": 1.0,
        "last_1h": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "shops_1h": 2,
        "shop_1h": "",
    }


def test_a_time_beyond_the_calendar_does_not_fail_the_answer() -> None:
    found = read(Objects, [{"seen": -(10**17), "at": 0}], MINUTE_US)
    assert found["last_1h"] == datetime.min.replace(tzinfo=UTC)


def test_windows_of_one_hop_and_different_lengths_are_read_apart() -> None:
    @hr.features(payments, by="card")
    class Two:
        number = hr.count(windows=["10m", "30m"], hop="1m")
        spend = hr.sum("amount", windows="10m", hop="1m")

    found = read(Two, amounts(*[2.0] * 40), 39 * MINUTE_US)
    assert found == {"number_10m": 11, "number_30m": 31, "spend_10m": 22.0}
