"""Bounds on areas under curves from a histogram, whatever the order within its bins."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BinCounts = NDArray[np.float64] | NDArray[np.int64]


class QualityMetricValue(NamedTuple):
    """A value with its error bound ± `error`; None where it is unknown."""

    value: float | None
    error: float = 0.0


UNKNOWN = QualityMetricValue(None)


def auc(negatives: BinCounts, positives: BinCounts) -> QualityMetricValue:
    """The area under the ROC curve: pairs within one bin may all be in order, or none of them.

    >>> auc(np.array([2, 1]), np.array([0, 1]))
    QualityMetricValue(value=0.8333333333333334, error=0.16666666666666666)
    """
    pairs = float(negatives.sum()) * float(positives.sum())
    if pairs <= 0:
        return UNKNOWN
    negatives_below = np.cumsum(negatives) - negatives
    undecided_pairs = float((positives * negatives.astype(np.float64)).sum()) / 2
    ordered_pairs = float((positives * negatives_below.astype(np.float64)).sum())
    return QualityMetricValue((ordered_pairs + undecided_pairs) / pairs, undecided_pairs / pairs)


def average_precision(negatives: BinCounts, positives: BinCounts) -> QualityMetricValue:
    """The area under the precision-recall curve: in each bin positives come first, or negatives do."""
    total = float(positives.sum())
    if total <= 0:
        return UNKNOWN
    has_positives = positives > 0
    positives_above, negatives_above = (
        _counts_at_and_above(positives)[has_positives],
        _counts_at_and_above(negatives)[has_positives],
    )
    positives_in_bin, negatives_in_bin = (
        positives[has_positives].astype(np.float64),
        negatives[has_positives].astype(np.float64),
    )
    max_precision_sums = positives_in_bin * positives_above / (positives_above + negatives_above - negatives_in_bin)
    # Lower bound: the j-th positive of a bin has precision (t + j) / (t + j + wrong); the sum is above its integral.
    min_precision_sums = positives_in_bin - negatives_above * np.log1p(
        positives_in_bin / np.maximum(positives_above - positives_in_bin + negatives_above, np.finfo(np.float64).tiny)
    )
    min_precision_sums = np.where(negatives_above > 0, np.maximum(min_precision_sums, 0), positives_in_bin)
    upper_bound, lower_bound = float(max_precision_sums.sum()) / total, float(min_precision_sums.sum()) / total
    return QualityMetricValue((upper_bound + lower_bound) / 2, (upper_bound - lower_bound) / 2)


def _counts_at_and_above(counts: BinCounts) -> NDArray[np.float64]:
    """The counts of each bin and all above it."""
    return np.cumsum(counts[::-1])[::-1].astype(np.float64)
