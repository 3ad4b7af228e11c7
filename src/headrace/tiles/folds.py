"""What of each event is added up or compared, and what the merged columns of a window come to: in whole columns."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headrace.tiles.columns import Data, Mask, Values
from headrace.tiles.layout import INT64_MAX, INT64_MIN, Partial, Slot
from headrace.tiles.timeline import Ints

LOW_32_BITS = 0xFFFFFFFF
EXACT_DOUBLE = 1 << 53

Merged = dict[str, Data]


class Folded(NamedTuple):
    """A column of numbers, how it merges, and the value of no events."""

    data: Data
    reduction: np.ufunc
    identity: float


def folds_of(slot: Slot, values: Values, owners: Ints) -> dict[str, Folded]:
    """The columns of a slot, a number an event."""
    counted = {"c": Folded(values.valid.astype(np.int64), np.add, 0)}
    if slot.partial is Partial.COUNT:
        return counted
    return counted | _FOLDS[slot.partial](values, owners)


def _int_sum(values: Values, _: Ints) -> dict[str, Folded]:
    data = np.where(values.valid, values.data, 0)
    return {"hi": Folded(data >> 32, np.add, 0), "lo": Folded(data & LOW_32_BITS, np.add, 0)}


def _float_sum(values: Values, _: Ints) -> dict[str, Folded]:
    return {"s": Folded(np.where(values.valid, values.data, 0.0), np.add, 0.0)}


def _moments(values: Values, owners: Ints) -> dict[str, Folded]:
    """Deviations from the entity's own mean: their squares can be added up without losing what they differ by."""
    data = values.data.astype(np.float64)
    finite = values.valid & np.isfinite(data)
    counts = np.maximum(np.bincount(owners, finite), 1)
    means = np.bincount(owners, np.where(finite, data, 0.0)) / counts
    deviations = np.where(values.valid, data - np.nan_to_num(means)[owners], 0.0)
    return {"d": Folded(deviations, np.add, 0.0), "d2": Folded(deviations * deviations, np.add, 0.0)}


def _extreme(reduction: np.ufunc, identity: float) -> Callable[[Values, Ints], dict[str, Folded]]:
    def fold_extreme(values: Values, _: Ints) -> dict[str, Folded]:
        return {"v": Folded(np.where(values.valid, values.data, identity), reduction, identity)}

    return fold_extreme


_LEAST, _GREATEST = _extreme(np.minimum, INT64_MAX), _extreme(np.maximum, INT64_MIN)
_FOLDS: dict[Partial, Callable[[Values, Ints], dict[str, Folded]]] = {
    Partial.INT_SUM: _int_sum,
    Partial.FLOAT_SUM: _float_sum,
    Partial.MOMENTS: _moments,
    Partial.INT_MIN: _LEAST,
    Partial.INT_MAX: _GREATEST,
    Partial.FLOAT_MIN: _extreme(np.fmin, np.nan),
    Partial.FLOAT_MAX: _extreme(np.maximum, -np.inf),
    Partial.TEXT_MIN: _LEAST,
    Partial.TEXT_MAX: _GREATEST,
    Partial.FIRST: _LEAST,
    Partial.LAST: _GREATEST,
}


def _there(merged: Merged, at_least: int = 1) -> Mask:
    there: Mask = merged["c"] >= at_least
    return there


def _count(merged: Merged) -> Values:
    return Values(merged["c"], np.ones(len(merged["c"]), np.bool_))


def _value(merged: Merged) -> Values:
    return Values(merged["v"], _there(merged))


def _total(merged: Merged) -> Data:
    """Sums of integers, exact: as Python's where one does not fit 64 bits."""
    high = merged["hi"] + (merged["lo"] >> 32)
    if ((high >= -(1 << 31)) & (high < 1 << 31)).all():
        total: Data = (high << 32) + (merged["lo"] & LOW_32_BITS)
        return total
    exact: Data = (merged["hi"].astype(object) << 32) + merged["lo"].astype(object)
    return exact


def _int_total(merged: Merged) -> Values:
    return Values(_total(merged), _there(merged))


def _int_mean(merged: Merged) -> Values:
    total, counts = _total(merged), np.maximum(merged["c"], 1)
    if (abs(total) > EXACT_DOUBLE).any():  # divided as Python divides: rounded once
        total, counts = total.astype(object), counts.astype(object)
    return Values((total / counts).astype(np.float64), _there(merged))


def _float_total(merged: Merged) -> Values:
    return Values(merged["s"], _there(merged))


def _float_mean(merged: Merged) -> Values:
    return Values(merged["s"] / np.maximum(merged["c"], 1), _there(merged))


def _var(merged: Merged) -> Values:
    return Values(merged["m2"] / np.maximum(merged["c"] - 1, 1), _there(merged, 2))


def _stddev(merged: Merged) -> Values:
    var = _var(merged)
    return Values(np.sqrt(var.data), var.valid)


FINISHES: dict[tuple[Partial, str], Callable[[Merged], Values]] = {
    (Partial.COUNT, "count"): _count,
    (Partial.INT_SUM, "sum"): _int_total,
    (Partial.INT_SUM, "mean"): _int_mean,
    (Partial.FLOAT_SUM, "sum"): _float_total,
    (Partial.FLOAT_SUM, "mean"): _float_mean,
    (Partial.MOMENTS, "var"): _var,
    (Partial.MOMENTS, "stddev"): _stddev,
    (Partial.INT_MIN, "min"): _value,
    (Partial.INT_MAX, "max"): _value,
    (Partial.FLOAT_MIN, "min"): _value,
    (Partial.FLOAT_MAX, "max"): _value,
    (Partial.TEXT_MIN, "min"): _value,
    (Partial.TEXT_MAX, "max"): _value,
    (Partial.FIRST, "first"): _value,
    (Partial.LAST, "last"): _value,
}
