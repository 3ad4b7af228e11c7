"""Statistics on counts equal scipy's on raw values, and their p-values agree with simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from headrace.models.versions.reference_distribution import build_reference, count_numbers
from headrace.monitoring.drift import statistics

counts = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=30)
numbers = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=300)


def pair(drawn: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    before, now = np.array(drawn).T
    return before + (before.sum() == 0), now + (now.sum() == 0)


@given(counts)
def test_psi_is_the_entropy_of_both_ways(drawn):
    before, now = pair(drawn)
    was, is_ = before + 0.5, now + 0.5
    right = stats.entropy(was, is_) + stats.entropy(is_, was)
    assert statistics.psi(before, now)[0] == pytest.approx(right, abs=1e-12)


@given(counts)
def test_jensen_shannon_is_the_square_of_scipys_distance(drawn):
    before, now = pair(drawn)
    assert statistics.jensen_shannon(before, now)[0] == pytest.approx(jensenshannon(before, now) ** 2, abs=1e-9)


@given(counts)
def test_chi_square_is_that_of_a_table_of_two_rows(drawn):
    before, now = pair(drawn)
    there = before + now > 0
    right = stats.chi2_contingency(np.array([before[there], now[there]]), correction=False).statistic
    assert statistics.chi_square(before, now)[0] == pytest.approx(right, rel=1e-9, abs=1e-9)


@settings(max_examples=300)
@given(numbers, numbers, st.integers(2, 100))
def test_ks_of_raw_values_is_within_the_stated_error_of_that_of_bins(before, now, most):
    reference = build_reference(np.array(before), most)
    cuts = np.array(reference.cuts)
    binned = [np.array(count_numbers(np.array(values), cuts).counts) for values in (before, now)]
    (least,), (error,) = statistics.kolmogorov_smirnov(*binned)
    right = stats.ks_2samp(before, now, method="asymp").statistic
    assert least - 1e-12 <= right <= least + error + 1e-12


def test_the_error_of_ks_is_a_bins_share():
    rng = np.random.default_rng(0)
    reference = build_reference(rng.normal(size=10_000))
    now = np.array(count_numbers(rng.normal(size=5_000), np.array(reference.cuts)).counts)
    (_,), (error,) = statistics.kolmogorov_smirnov(np.array(reference.bins.counts), now)
    assert error < 0.015


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_shares_differ_by_chance_at_least_as_often_as_fishers_exact_test_says(rows_before, rows_now, data):
    before, now = data.draw(st.integers(0, rows_before)), data.draw(st.integers(0, rows_now))
    rows = statistics.SampleSizes(np.array([float(rows_before)]), np.array([float(rows_now)]))
    table = [[now, rows_now - now], [before, rows_before - before]]
    exact = min(stats.fisher_exact(table, alternative=way).pvalue for way in ("less", "greater"))
    chance = statistics.share_p_value(np.array([before]), np.array([now]), rows)[0]
    assert chance >= min(1.0, exact) - 1e-9


def test_a_share_never_seen_before_is_the_power_of_its_rows():
    rows = statistics.SampleSizes(np.array([10_000.0]), np.array([1_000.0]))
    assert statistics.share_p_value(np.array([0]), np.array([6]), rows)[0] == pytest.approx(2 / 11**6)


@pytest.mark.parametrize("rows_now", [200, 1_000, 20_000])
@pytest.mark.parametrize("alpha", [0.01, 0.0001])
def test_critical_values_are_exceeded_as_often_as_they_say(rows_now, alpha):
    rng, windows = np.random.default_rng(rows_now), 200_000
    before, now = (rng.multinomial(rows, np.full(10, 0.1), windows) for rows in (5_000, rows_now))
    together, freedom = statistics.sample_sizes(before, now).effective_size, np.array([9])
    critical = statistics.chi_square_critical(alpha, freedom)
    for scaled in (
        statistics.psi(before, now) * together,
        statistics.jensen_shannon(before, now) * 8 * together,
        statistics.chi_square(before, now),
    ):
        assert (scaled > critical).mean() < 2.5 * alpha
        assert (scaled > critical).mean() > 0.3 * alpha
    ks, _ = statistics.kolmogorov_smirnov(before, now)
    assert (ks > statistics.ks_critical(alpha, together)).mean() <= alpha


def test_columns_side_by_side_are_columns_alone():
    rng = np.random.default_rng(3)
    sizes = [1, 4, 10, 2]
    begins = np.array([0, 1, 5, 15])
    before, now = rng.integers(0, 50, 17), rng.integers(0, 50, (6, 17))
    now[2] = 0
    parts = [slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True)]
    for function in (statistics.psi, statistics.jensen_shannon, statistics.chi_square):
        whole = function(before, now, begins)
        alone = np.stack([function(before[part], now[:, part])[:, 0] for part in parts], -1)
        np.testing.assert_allclose(whole, alone, atol=1e-12)
    for whole, alone in zip(
        statistics.kolmogorov_smirnov(before, now, begins),
        zip(*(statistics.kolmogorov_smirnov(before[part], now[:, part]) for part in parts), strict=True),
        strict=True,
    ):
        np.testing.assert_allclose(whole, np.concatenate(alone, axis=-1), atol=1e-12)
