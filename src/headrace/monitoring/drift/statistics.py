"""Distances between two samples, and their distributions without drift, on counts of both in the same bins.

`reference` and `current` are counts, of several columns side by side; `starts` has the first index of each column.
Further axes before the last are windows. The effective size of both samples is
n = reference rows · current rows / (reference rows + current rows).

           without drift it is about         greater by chance with alpha where it exceeds
PSI        chi-square / n                    chi-square(1 - alpha) / n
JS         chi-square / 8n                   chi-square(1 - alpha) / 8n
KS         Kolmogorov's, less in bins        sqrt(ln(2 / alpha) / 2n), which bounds it
share      binomial, given both together     exact
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtrc, chdtri, rel_entr

from headrace.models.versions.reference_distribution import Counts, Floats

ColumnStarts = NDArray[np.intp]

SINGLE_COLUMN = np.zeros(1, np.intp)
SMOOTHING_COUNT = 0.5  # added to each bin, so that an empty one is rare and not impossible


class SampleSizes(NamedTuple):
    """The rows of each column in both samples."""

    reference: Floats
    current: Floats

    @property
    def effective_size(self) -> Floats:
        """The effective size of both samples together; 0 where one of them is empty."""
        return self.reference * self.current / np.maximum(self.reference + self.current, 1)


def sample_sizes(reference: Counts, current: Counts, starts: ColumnStarts = SINGLE_COLUMN) -> SampleSizes:
    """The rows of each column."""
    return SampleSizes(
        _column_sums(reference, starts).astype(np.float64), _column_sums(current, starts).astype(np.float64)
    )


def psi(reference: Counts, current: Counts, starts: ColumnStarts = SINGLE_COLUMN) -> Floats:
    """The population stability index: the symmetric divergence, in nats."""
    reference_shares, current_shares = _smoothed_shares(reference, starts), _smoothed_shares(current, starts)
    return _column_sums((current_shares - reference_shares) * np.log(current_shares / reference_shares), starts)


def jensen_shannon(reference: Counts, current: Counts, starts: ColumnStarts = SINGLE_COLUMN) -> Floats:
    """The Jensen-Shannon divergence, in nats: from 0 to ln 2."""
    reference_shares, current_shares = _column_shares(reference, starts), _column_shares(current, starts)
    mean_shares = (reference_shares + current_shares) / 2
    return _column_sums(rel_entr(reference_shares, mean_shares) + rel_entr(current_shares, mean_shares), starts) / 2


def chi_square(reference: Counts, current: Counts, starts: ColumnStarts = SINGLE_COLUMN) -> Floats:
    """Pearson's statistic for the hypothesis that both are samples of one distribution."""
    squared_differences = (_column_shares(current, starts) - _column_shares(reference, starts)) ** 2
    rows = sample_sizes(reference, current, starts)
    pooled_shares = (reference + current) / _repeat_per_bin(
        np.maximum(rows.reference + rows.current, 1), starts, current.shape[-1]
    )
    statistic: Floats = rows.effective_size * _column_sums(
        squared_differences / np.where(pooled_shares > 0, pooled_shares, 1), starts
    )
    return statistic


def kolmogorov_smirnov(
    reference: Counts, current: Counts, starts: ColumnStarts = SINGLE_COLUMN
) -> tuple[Floats, Floats]:
    """The greatest difference of both distribution functions at the bins' ends, and how much greater it may be within.

    A test by the first is conservative: the true statistic is at least that.
    """
    reference_shares, current_shares = _column_shares(reference, starts), _column_shares(current, starts)
    cdf_difference = np.cumsum(current_shares - reference_shares, axis=-1)
    cdf_difference -= _repeat_per_bin(
        (cdf_difference - current_shares + reference_shares)[..., starts], starts, current.shape[-1]
    )  # each column starts at zero again
    at_bin_ends = np.maximum.reduceat(np.abs(cdf_difference), starts, axis=-1)
    within_bins = np.maximum(
        reference_shares - (cdf_difference - current_shares + reference_shares),
        current_shares + (cdf_difference - current_shares + reference_shares),
    )
    return at_bin_ends, np.maximum(np.maximum.reduceat(within_bins, starts, axis=-1) - at_bin_ends, 0)


def chi_square_p_value(statistic: Floats, degrees_of_freedom: NDArray[np.intp]) -> Floats:
    """The probability that chi-square is at least this; 1 where there is only one group."""
    return np.where(degrees_of_freedom > 0, chdtrc(np.maximum(degrees_of_freedom, 1), np.maximum(statistic, 0)), 1.0)


def chi_square_critical(alpha: float, degrees_of_freedom: NDArray[np.intp]) -> Floats:
    """The critical value of chi-square at this level; infinite where there is only one group."""
    return np.where(degrees_of_freedom > 0, chdtri(np.maximum(degrees_of_freedom, 1), alpha), np.inf)


def ks_p_value(statistic: Floats, effective_size: Floats) -> Floats:
    """An upper bound on the probability that the Kolmogorov-Smirnov statistic is at least this."""
    p_value: Floats = np.minimum(1.0, 2 * np.exp(-2 * effective_size * statistic**2))
    return p_value


def ks_critical(alpha: float, effective_size: Floats) -> Floats:
    """The critical value of the statistic, at most at this level."""
    critical: Floats = np.sqrt(np.log(2 / alpha) / (2 * effective_size))
    return critical


def share_p_value(reference: Floats, current: Floats, rows: SampleSizes) -> Floats:
    """The probability that shares differ at least this much, given the total of both samples.

    Given that total, the current count is binomial, or varies less; the rarer of a value and its complement is tested.
    """
    is_majority = reference + current > (rows.reference + rows.current) / 2
    reference_rare, current_rare = (
        np.where(is_majority, rows.reference - reference, reference),
        np.where(is_majority, rows.current - current, current),
    )
    current_share = rows.current / np.maximum(rows.reference + rows.current, 1)
    p_more = np.where(current_rare > 0, betainc(np.maximum(current_rare, 1), reference_rare + 1, current_share), 1.0)
    p_less = np.where(
        reference_rare > 0, betainc(np.maximum(reference_rare, 1), current_rare + 1, 1 - current_share), 1.0
    )
    p_value: Floats = np.minimum(1.0, 2 * np.minimum(p_more, p_less))
    return p_value


def _column_sums(values: NDArray[Any], starts: ColumnStarts) -> NDArray[Any]:
    column_sums: NDArray[Any] = np.add.reduceat(values, starts, axis=-1)
    return column_sums


def _column_shares(counts: Counts, starts: ColumnStarts) -> Floats:
    rows = np.maximum(_column_sums(counts, starts), 1)
    shares: Floats = counts / _repeat_per_bin(rows, starts, counts.shape[-1])
    return shares


def _smoothed_shares(counts: Counts, starts: ColumnStarts) -> Floats:
    smoothed_counts = counts + SMOOTHING_COUNT
    shares: Floats = smoothed_counts / _repeat_per_bin(_column_sums(smoothed_counts, starts), starts, counts.shape[-1])
    return shares


def _repeat_per_bin(column_values: NDArray[Any], starts: ColumnStarts, width: int) -> NDArray[Any]:
    """A value of each column, repeated for each of its bins."""
    return np.repeat(column_values, np.diff(starts, append=width), axis=-1)
