"""Drift is reported where it exists and only there, with the column that matters most first."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.aggregates.value_columns import ValueColumn
from headrace.models.versions.reference_distribution import (
    ReferenceDistributionMissing,
    describe_references,
    parse_references,
)
from headrace.monitoring.drift.drift_fold import fold_rows
from headrace.monitoring.drift.drift_layout import ALL_ROWS, DriftLayout, create_layout
from headrace.monitoring.drift.drift_tests import DriftPolicy, run_drift_tests
from headrace.monitoring.drift.drift_tile import merge_tiles
from headrace.monitoring.drift.ranking import feature_importance, rank_drifted
from tests.models.cards import card_for

COUNTRIES = np.array(["FR", "DE", "US", "IT"], object)


def rows(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    country = rng.choice(COUNTRIES, size, p=[0.5, 0.3, 0.15, 0.05])
    return {
        "amount": rng.lognormal(3, 1, size),
        "mean": np.where(rng.random(size) < 0.1, np.nan, rng.normal(size=size)),
        "count": rng.poisson(2, size).astype(np.float64),
        "fixed": np.ones(size),
        "country": country,
    }


LAYOUT = DriftLayout(
    parse_references(
        describe_references(trained := rows(np.random.default_rng(0), 20_000), {"country": trained["country"]}), "It"
    )
)


def counted(live: dict[str, np.ndarray], segment: tuple = ALL_ROWS) -> np.ndarray:
    size = len(live["amount"])
    valid = {
        name: np.ones(size, np.bool_) if values.dtype == object else ~np.isnan(values) for name, values in live.items()
    }
    columns = {name: ValueColumn(values, valid[name]) for name, values in live.items()}
    tiles = fold_rows(LAYOUT, columns, np.zeros(size, np.int64))
    return merge_tiles(LAYOUT, [tile for (one, _), tile in tiles.items() if one == segment]).counts


def live(size: int = 3_000, seed: int = 1) -> dict[str, np.ndarray]:
    return rows(np.random.default_rng(seed), size)


def drifted(changed: dict[str, np.ndarray]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in run_drift_tests(LAYOUT, LAYOUT.reference, counted(changed)).findings():
        if one.drifted:
            found.setdefault(one.column, set()).add(one.test)
    return found


def test_nothing_drifted_where_nothing_changed():
    assert drifted(live()) == {}


def test_a_shift_is_found_by_all_tests_of_numbers():
    found = drifted(live() | {"amount": live(seed=2)["amount"] * 2})
    assert found == {"amount": {"psi", "js", "chi_square", "ks"}}


def test_nulls_that_became_more_or_none_are_found():
    some, none = live(), live()
    some["mean"][::2] = np.nan
    none["mean"] = np.nan_to_num(none["mean"], nan=0.1)
    assert drifted(some) == {"mean": {"missing"}}
    assert "missing" in drifted(none)["mean"]


def test_infinite_numbers_are_found():
    changed = live()
    changed["amount"][::50] = np.inf
    assert drifted(changed) == {"amount": {"infinite"}}


def test_a_constant_that_is_another_one_is_found():
    assert drifted(live() | {"fixed": np.zeros(3_000)}) == {"fixed": {"ks", "unseen"}}


def test_texts_never_seen_are_found():
    changed = live()
    changed["country"][::40] = "XX"
    assert drifted(changed) == {"country": {"unseen"}}


def test_texts_in_other_shares_are_found():
    changed = live() | {"country": np.random.default_rng(3).choice(COUNTRIES, 3_000)}
    assert drifted(changed) == {"country": {"psi", "js", "chi_square"}}


def test_every_row_null_is_missing_and_no_error():
    changed = live() | {"amount": np.full(3_000, np.nan)}
    assert drifted(changed) == {"amount": {"missing"}}


@pytest.mark.parametrize("kinds", [4_000, 1_000_000])
def test_texts_of_which_few_recur_do_not_drift_by_being_rare(kinds):
    """Those that were most frequent were so by luck: the next rows have fewer of them."""
    rng = np.random.default_rng(4)
    names = np.array([f"id {number}" for number in rng.integers(0, kinds, 40_000)], object)
    layout = DriftLayout(parse_references(describe_references({"id": names[:20_000]}, {}), "It"))
    values = ValueColumn(names[20_000:], np.ones(20_000, np.bool_))
    now = fold_rows(layout, {"id": values}, np.zeros(20_000, np.int64))[ALL_ROWS, 0]
    assert not run_drift_tests(
        layout, layout.reference, now.counts, DriftPolicy(least_psi=0, least_share=0)
    ).drifted.any()


def test_a_sure_but_tiny_shift_of_a_huge_window_is_no_alarm():
    many = live(400_000)
    many["amount"] *= 1.03
    examined = run_drift_tests(LAYOUT, LAYOUT.reference, counted(many))
    place = LAYOUT.names.index("amount")
    assert examined.tests["ks"].statistic[place] > 0.01
    assert not examined.drifted[place]
    sure = run_drift_tests(LAYOUT, LAYOUT.reference * 50, counted(many), DriftPolicy(least_psi=0, least_ks=0))
    assert sure.tests["ks"].drifted[place]


@pytest.mark.parametrize("size", [0, 1, 199])
def test_too_few_rows_tell_nothing(size):
    assert drifted({name: values[:size] for name, values in live().items()} | {"amount": np.zeros(size)}) == {}


def test_all_tests_of_a_day_share_its_chance():
    policy = DriftPolicy(alarms_a_day=0.5)
    assert policy.alpha(LAYOUT) * 1440 * (4 * 7 + 5) == pytest.approx(0.5)
    assert policy.alpha(LAYOUT, segment_count=4) * 4 == pytest.approx(policy.alpha(LAYOUT))


def test_a_statistic_above_its_critical_value_has_less_than_alphas_chance():
    examined = run_drift_tests(LAYOUT, LAYOUT.reference, np.stack([counted(live(seed=seed)) for seed in range(5)]))
    for name in ("psi", "js", "chi_square", "ks"):
        test = examined.tests[name]
        told = np.isfinite(test.p_value)
        assert ((test.statistic > test.critical_value) == (test.p_value < examined.alpha))[told].all()


def test_windows_together_are_windows_alone():
    windows = np.stack([counted(live(seed=seed)) for seed in range(4)])
    together = run_drift_tests(LAYOUT, LAYOUT.reference, windows)
    for place, window in enumerate(windows):
        alone = run_drift_tests(LAYOUT, LAYOUT.reference, window)
        for name, test in alone.tests.items():
            np.testing.assert_array_equal(test.statistic, together.tests[name].statistic[place])
            np.testing.assert_array_equal(test.p_value, together.tests[name].p_value[place])


def test_a_segment_that_drifts_is_ranked_before_the_whole_it_dilutes_in():
    changed = live(8_000)
    german = changed["country"] == "DE"
    changed["count"][german] += 2
    examined = {
        segment: run_drift_tests(LAYOUT, before, counted(changed, segment), segment_count=len(LAYOUT.segments))
        for segment, before in LAYOUT.segments.items()
    }
    first = rank_drifted(examined, {})[0]
    assert (first.segment, first.column) == ((("country", "DE"),), "count")
    assert {one.segment for one in rank_drifted(examined, {})} <= {ALL_ROWS, (("country", "DE"),)}


def test_columns_are_ranked_by_effect_times_importance():
    changed = live() | {"amount": live()["amount"] * 2, "count": live()["count"] + 2}
    examined = {ALL_ROWS: run_drift_tests(LAYOUT, LAYOUT.reference, counted(changed))}
    assert [one.column for one in rank_drifted(examined, {})] == ["count", "amount"]
    assert [one.column for one in rank_drifted(examined, {"amount": 4.0, "count": 0.1})] == ["amount", "count"]


def test_importance_is_one_on_average_and_equal_where_the_card_has_none():
    card = card_for(b"")
    features = [{"name": "a", "type": "double"}, {"name": "b", "type": "double"}]
    assert feature_importance(replace(card, features=features)) == {"a": 1.0, "b": 1.0}
    told = [{**features[0], "importance": 0.75}, {**features[1], "importance": 0.25}]
    assert feature_importance(replace(card, features=told)) == {"a": 1.5, "b": 0.5}
    assert feature_importance(replace(card, features=[told[0], features[1]])) == {"a": 1.0, "b": 1.0}


OLD = {"amount": {"nulls": 0.1, "quantiles": [1.0, 2.0]}}
GOOD = describe_references({"amount": np.arange(300.0)}, {})["amount"]
BROKEN = {
    "nothing": {},
    "a card from before": OLD,
    "a list": {"amount": []},
    "cuts that fall": {"amount": {**GOOD, "cuts": GOOD["cuts"][::-1]}},
    "too few counts": {"amount": {**GOOD, "bins": {**GOOD["bins"], "counts": [1]}}},
    "no counts": {"amount": {**GOOD, "bins": {**GOOD["bins"], "counts": []}}},
    "a negative count": {"amount": {**GOOD, "bins": {**GOOD["bins"], "nulls": -1}}},
    "a count beyond counting": {"amount": {**GOOD, "bins": {**GOOD["bins"], "nulls": 1e300}}},
    "a text for a cut": {"amount": {**GOOD, "cuts": ["x"] * len(GOOD["cuts"])}},
}


@pytest.mark.parametrize("written", BROKEN.values(), ids=BROKEN.keys())
def test_a_card_that_says_nothing_of_its_inputs_is_refused_with_what_to_do(written):
    with pytest.raises(ReferenceDistributionMissing, match="Train it again"):
        create_layout(replace(card_for(b""), reference=written))


def test_references_stay_small_however_many_columns_there_are():
    import json

    rng = np.random.default_rng(0)
    few = describe_references({f"c{place}": rng.normal(size=1_000) for place in range(1_000)}, {})
    assert len(json.dumps(few, indent=1)) < 3 << 20
    texts = np.array(["x" * 10_000 + str(number) for number in range(500)], object)
    assert len(json.dumps(describe_references({"text": texts}, {}))) < 20_000


def test_a_column_that_was_always_null_is_compared_by_what_is_missing():
    layout = DriftLayout(parse_references(describe_references({"x": np.full(1_000, np.nan)}, {}), "It"))
    values = ValueColumn(np.arange(1_000.0), np.ones(1_000, np.bool_))
    now = fold_rows(layout, {"x": values}, np.zeros(1_000, np.int64))[ALL_ROWS, 0]
    found = [one.test for one in run_drift_tests(layout, layout.reference, now.counts).findings() if one.drifted]
    assert found == ["missing"]
