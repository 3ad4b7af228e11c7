"""Tests served values against the training data: each column by each test, and which of them detect drift.

A test detects drift where two conditions hold:
    its statistic is significant, at the false-alarm rate that all tests of a day share, and
    its effect is greater than the policy's minimum, however significant a smaller one is.
Its multiple is the smaller ratio of the two to their thresholds: above 1 is drift.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.declare.durations import UNITS_US
from headrace.models.versions.reference_distribution import Counts, Floats
from headrace.monitoring.drift import statistics
from headrace.monitoring.drift.drift_layout import DriftLayout

NUMERIC_TESTS = ("ks", "infinite")
GROUP_TESTS = ("psi", "js", "chi_square")
SHARE_TESTS = ("missing", "infinite", "unseen")
TESTS = (*GROUP_TESTS, "ks", *SHARE_TESTS)
MIN_P_VALUE = 1e-300  # a smaller one underflows a double


@dataclass(frozen=True)
class DriftPolicy:
    """When to report drift.

    `alarms_a_day` is the rate of false alarms, over all columns, tests and segments together, where a window is tested
    `every_us`. Fewer rows than `least_rows` are not tested. PSI and Jensen-Shannon, chi-square in PSI's measure, must
    exceed `least_psi`; KS `least_ks`; shares of missing, infinite or unseen values `least_share`.
    """

    alarms_a_day: float = 0.1
    every_us: int = UNITS_US["m"]
    least_rows: int = 200
    least_psi: float = 0.1
    least_ks: float = 0.1
    least_share: float = 0.01

    def alpha(self, layout: DriftLayout, segment_count: int = 1) -> float:
        """The significance level of each test: the day's rate, divided among all tests (Bonferroni correction)."""
        return self.alarms_a_day * self.every_us / UNITS_US["d"] / (_test_count(layout) * segment_count)

    def min_effect(self, test: str) -> float:
        """The minimum effect of a test."""
        return self.least_ks if test == "ks" else self.least_psi if test in GROUP_TESTS else self.least_share


class DriftTestResult(NamedTuple):
    """One test of every window and column; `critical_value` is the threshold of its statistic, NaN where it is exact.

    `effect` is in the measure of the policy's minimum, `distance` in PSI's, by which columns are ranked.
    `multiple` is NaN where the test does not apply: the column is of another kind, or has too few rows.
    """

    statistic: Floats
    critical_value: Floats
    p_value: Floats
    effect: Floats
    distance: Floats
    multiple: Floats

    @property
    def drifted(self) -> NDArray[np.bool_]:
        """Which windows and columns drifted by this test."""
        return self.multiple > 1


@dataclass(frozen=True)
class DriftFinding:
    """The result of one test of one column."""

    column: str
    test: str
    statistic: float
    critical_value: float
    p_value: float
    effect: float
    multiple: float

    @property
    def drifted(self) -> bool:
        return self.multiple > 1


@dataclass(frozen=True)
class DriftTestReport:
    """The tests of some windows: arrays of windows by columns; `distance` is the greatest drifted one, in PSI units.

    `ks_error` is how much greater the Kolmogorov-Smirnov statistic may be than its bins show.
    """

    columns: tuple[str, ...]
    alpha: float
    tests: Mapping[str, DriftTestResult]
    distance: Floats
    ks_error: Floats

    @property
    def drifted(self) -> NDArray[np.bool_]:
        """Which windows and columns drifted, by any test."""
        has_drifted: NDArray[np.bool_] = np.any([test.drifted for test in self.tests.values()], axis=0)
        return has_drifted

    @property
    def multiple(self) -> Floats:
        """For every window and column the greatest multiple of its tests; NaN where none applies."""
        greatest: Floats = np.fmax.reduce([test.multiple for test in self.tests.values()])
        return greatest

    def findings(self) -> Iterator[DriftFinding]:
        """Every test of every column of one window."""
        for name, test in self.tests.items():
            for index, column in enumerate(self.columns):
                if np.isfinite(test.p_value[index]):
                    yield DriftFinding(
                        column=column,
                        test=name,
                        statistic=float(test.statistic[index]),
                        critical_value=float(test.critical_value[index]),
                        p_value=float(test.p_value[index]),
                        effect=float(test.effect[index]),
                        multiple=float(test.multiple[index]),
                    )


def run_drift_tests(
    layout: DriftLayout, reference: Counts, current: Counts, policy: DriftPolicy | None = None, segment_count: int = 1
) -> DriftTestReport:
    """Test the windows of `current` against `reference`; `segment_count` segments share the day's false-alarm rate."""
    policy = policy or DriftPolicy()
    alpha = policy.alpha(layout, segment_count)
    value_sizes = statistics.sample_sizes(
        reference[..., layout.value_indices], current[..., layout.value_indices], layout.value_starts
    )
    ks, ks_error = _ks_statistic(layout, reference, current)
    test_statistics = _group_tests(layout, reference, current, value_sizes, alpha) | {
        "ks": _ks_test(ks, value_sizes, alpha)
    }
    test_statistics |= _share_tests(layout, reference, current, value_sizes)
    tests = {name: _apply_policy(name, test_statistics[name], layout, policy, alpha) for name in TESTS}
    distance: Floats = np.max([np.where(test.drifted, test.distance, 0.0) for test in tests.values()], axis=0)
    return DriftTestReport(layout.names, alpha, tests, distance, ks_error)


class _TestStatistic(NamedTuple):
    statistic: Floats
    critical_value: Floats
    p_value: Floats
    effect: Floats
    distance: Floats
    rows: statistics.SampleSizes


def _test_count(layout: DriftLayout) -> int:
    """How many tests a window undergoes."""
    return len(TESTS) * len(layout.columns) - len(NUMERIC_TESTS) * int((~layout.is_numeric).sum())


def _group_tests(
    layout: DriftLayout, reference: Counts, current: Counts, rows: statistics.SampleSizes, alpha: float
) -> dict[str, _TestStatistic]:
    """PSI, Jensen-Shannon and chi-square: n times PSI, 8 n times JS and chi-square are about the same."""
    reference_groups, current_groups, starts = (
        layout.group_counts(reference),
        layout.group_counts(current),
        layout.group_starts,
    )
    effective_size = np.maximum(rows.effective_size, 1e-9)
    statistics_and_scales = {
        "psi": (statistics.psi(reference_groups, current_groups, starts), effective_size),
        "js": (statistics.jensen_shannon(reference_groups, current_groups, starts), 8 * effective_size),
        "chi_square": (statistics.chi_square(reference_groups, current_groups, starts), np.ones_like(effective_size)),
    }
    critical_value = statistics.chi_square_critical(alpha, layout.degrees_of_freedom)
    test_statistics = {}
    for name, (statistic, scale) in statistics_and_scales.items():
        p_value = statistics.chi_square_p_value(scale * statistic, layout.degrees_of_freedom)
        effect = (
            np.maximum(scale * statistic - layout.degrees_of_freedom, 0) / effective_size
        )  # minus its expectation by chance
        test_statistics[name] = _TestStatistic(statistic, critical_value / scale, p_value, effect, effect, rows)
    return test_statistics


def _ks_statistic(layout: DriftLayout, reference: Counts, current: Counts) -> tuple[Floats, Floats]:
    return statistics.kolmogorov_smirnov(
        reference[..., layout.value_indices], current[..., layout.value_indices], layout.value_starts
    )


def _ks_test(ks: Floats, rows: statistics.SampleSizes, alpha: float) -> _TestStatistic:
    effective_size = np.maximum(rows.effective_size, 1e-9)
    critical_value, p_value = statistics.ks_critical(alpha, effective_size), statistics.ks_p_value(ks, effective_size)
    return _TestStatistic(
        ks, critical_value, p_value, ks, 4 * ks**2, rows
    )  # two groups at that distance have at least that index


def _share_tests(
    layout: DriftLayout, reference: Counts, current: Counts, value_sizes: statistics.SampleSizes
) -> dict[str, _TestStatistic]:
    """Null and NaN, infinite, and unseen: as shares of all rows, of non-null rows, of rows with a value."""
    missing = [rows[..., layout.special_starts] + rows[..., layout.special_starts + 1] for rows in (reference, current)]
    infinite = [rows[..., layout.special_starts + 2] for rows in (reference, current)]
    present_sizes = statistics.SampleSizes(value_sizes.reference + infinite[0], value_sizes.current + infinite[1])
    all_sizes = statistics.SampleSizes(present_sizes.reference + missing[0], present_sizes.current + missing[1])
    unseen_by_chance = np.where(
        layout.is_numeric, 2, 0
    )  # after n numbers the next one is beyond either end with probability 2 / (n + 1)
    return {
        "missing": _share_test(missing[0], missing[1], all_sizes),
        "infinite": _share_test(infinite[0], infinite[1], present_sizes),
        "unseen": _share_test(
            np.minimum(_unseen_counts(layout, reference) + unseen_by_chance, value_sizes.reference),
            _unseen_counts(layout, current),
            value_sizes,
        ),
    }


def _unseen_counts(layout: DriftLayout, counts: Counts) -> Counts:
    """Rows below the least and above the greatest number, or with an unlisted text."""
    low, high = layout.edge_indices[:, 0], layout.edge_indices[:, 1]
    unseen: Counts = counts[..., high] + np.where(low == high, 0, counts[..., low])
    return unseen


def _share_test(reference: NDArray[Any], current: NDArray[Any], rows: statistics.SampleSizes) -> _TestStatistic:
    reference_share, current_share = reference / np.maximum(rows.reference, 1), current / np.maximum(rows.current, 1)
    difference = np.abs(current_share - reference_share)
    groups = [
        np.stack(np.broadcast_arrays(part, whole - part), -1)
        for part, whole in zip((reference, current), rows, strict=True)
    ]
    distance = statistics.psi(groups[0], groups[1])[..., 0]
    return _TestStatistic(
        difference,
        np.full_like(difference, np.nan),
        statistics.share_p_value(reference, current, rows),
        difference,
        distance,
        rows,
    )


def _apply_policy(
    name: str, test_statistic: _TestStatistic, layout: DriftLayout, policy: DriftPolicy, alpha: float
) -> DriftTestResult:
    """A test with its result; a column of another kind, or with too few rows, cannot raise a false alarm."""
    statistic, critical_value, p_value, effect, distance, rows = test_statistic
    is_applicable = layout.is_numeric if name in NUMERIC_TESTS else True
    has_enough_rows = is_applicable & (rows.current >= policy.least_rows) & (rows.reference >= policy.least_rows)
    critical_value = np.broadcast_to(critical_value, p_value.shape)
    significance = _exact_significance(p_value, alpha) if name in SHARE_TESTS else statistic / critical_value
    min_effect = policy.min_effect(name)
    effect_multiple = effect / min_effect if min_effect else np.full_like(effect, np.inf)
    multiple = np.where(has_enough_rows, np.minimum(significance, effect_multiple), np.nan)
    return DriftTestResult(
        statistic, critical_value, np.where(has_enough_rows, p_value, np.nan), effect, distance, multiple
    )


def _exact_significance(p_value: Floats, alpha: float) -> Floats:
    """The significance of exact tests, which have a p-value and no critical value: by its magnitude."""
    significance: Floats = np.log(np.maximum(p_value, MIN_P_VALUE)) / np.log(alpha)
    return significance
