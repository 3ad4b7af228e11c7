"""Areas under curves from a histogram: what they are at least and at most, whatever the order within its bins."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64] | NDArray[np.int64]


class Reading(NamedTuple):
    """A number that is known within ± `error`; None where nothing is known of it."""

    value: float | None
    error: float = 0.0


UNKNOWN = Reading(None)


def auc(negatives: Counts, positives: Counts) -> Reading:
    """The area under the ROC curve: pairs within one bin may all be in order, or none of them.

    >>> auc(np.array([2, 1]), np.array([0, 1]))
    Reading(value=0.8333333333333334, error=0.16666666666666666)
    """
    pairs = float(negatives.sum()) * float(positives.sum())
    if pairs <= 0:
        return UNKNOWN
    below = np.cumsum(negatives) - negatives
    undecided = float((positives * negatives.astype(np.float64)).sum()) / 2
    in_order = float((positives * below.astype(np.float64)).sum())
    return Reading((in_order + undecided) / pairs, undecided / pairs)


def average_precision(negatives: Counts, positives: Counts) -> Reading:
    """The area under the precision-recall curve: in each bin positives come first, or negatives do."""
    total = float(positives.sum())
    if total <= 0:
        return UNKNOWN
    there = positives > 0
    found, wrong = _and_above(positives)[there], _and_above(negatives)[there]
    inside, outside = positives[there].astype(np.float64), negatives[there].astype(np.float64)
    most = inside * found / (found + wrong - outside)
    # At least: the j-th positive of a bin has precision (t + j) / (t + j + wrong), and the sum is above its integral.
    least = inside - wrong * np.log1p(inside / np.maximum(found - inside + wrong, np.finfo(np.float64).tiny))
    least = np.where(wrong > 0, np.maximum(least, 0), inside)
    at_most, at_least = float(most.sum()) / total, float(least.sum()) / total
    return Reading((at_most + at_least) / 2, (at_most - at_least) / 2)


def _and_above(counts: Counts) -> NDArray[np.float64]:
    """In each bin and all above it."""
    return np.cumsum(counts[::-1])[::-1].astype(np.float64)
