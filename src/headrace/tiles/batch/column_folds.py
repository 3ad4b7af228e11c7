"""What of each event is added up or compared, and what the merged columns of a window come to: in whole columns."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headrace.tiles.batch.sorted_times import Ints
from headrace.tiles.events.event_columns import Data, Mask, ValueColumn
from headrace.tiles.layout import INT64_MAX, INT64_MIN, AggregateSlot, Partial

LOW_32_BITS = 0xFFFFFFFF
EXACT_DOUBLE = 1 << 53

MergedColumns = dict[str, Data]


class FoldColumn(NamedTuple):
    """A column of numbers, how it merges, and the value of no events."""

    data: Data
    reduction: np.ufunc
    identity: float


def fold_columns(slot: AggregateSlot, values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
    """The columns of a slot, a number an event."""
    count_column = {"c": FoldColumn(values.valid.astype(np.int64), np.add, 0)}
    if slot.partial is Partial.COUNT:
        return count_column
    return count_column | _FOLDS[slot.partial](values, entities)


def _int_sum(values: ValueColumn, _: Ints) -> dict[str, FoldColumn]:
    data = np.where(values.valid, values.data, 0)
    return {"hi": FoldColumn(data >> 32, np.add, 0), "lo": FoldColumn(data & LOW_32_BITS, np.add, 0)}


def _float_sum(values: ValueColumn, _: Ints) -> dict[str, FoldColumn]:
    return {"s": FoldColumn(np.where(values.valid, values.data, 0.0), np.add, 0.0)}


def _moments(values: ValueColumn, entities: Ints) -> dict[str, FoldColumn]:
    """Deviations from the entity's own mean: their squares can be added up without losing what they differ by."""
    data = values.data.astype(np.float64)
    finite = values.valid & np.isfinite(data)
    counts = np.maximum(np.bincount(entities, finite), 1)
    means = np.bincount(entities, np.where(finite, data, 0.0)) / counts
    deviations = np.where(values.valid, data - np.nan_to_num(means)[entities], 0.0)
    return {"d": FoldColumn(deviations, np.add, 0.0), "d2": FoldColumn(deviations * deviations, np.add, 0.0)}


def _extreme(reduction: np.ufunc, identity: float) -> Callable[[ValueColumn, Ints], dict[str, FoldColumn]]:
    def fold_extreme(values: ValueColumn, _: Ints) -> dict[str, FoldColumn]:
        return {"v": FoldColumn(np.where(values.valid, values.data, identity), reduction, identity)}

    return fold_extreme


_LEAST, _GREATEST = _extreme(np.minimum, INT64_MAX), _extreme(np.maximum, INT64_MIN)
_FOLDS: dict[Partial, Callable[[ValueColumn, Ints], dict[str, FoldColumn]]] = {
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


def _has_values(merged: MergedColumns, at_least: int = 1) -> Mask:
    has_values: Mask = merged["c"] >= at_least
    return has_values


def _count(merged: MergedColumns) -> ValueColumn:
    return ValueColumn(merged["c"], np.ones(len(merged["c"]), np.bool_))


def _value(merged: MergedColumns) -> ValueColumn:
    return ValueColumn(merged["v"], _has_values(merged))


def _exact_total(merged: MergedColumns) -> Data:
    """Sums of integers, exact: as Python's where one does not fit 64 bits."""
    high = merged["hi"] + (merged["lo"] >> 32)
    if ((high >= -(1 << 31)) & (high < 1 << 31)).all():
        total: Data = (high << 32) + (merged["lo"] & LOW_32_BITS)
        return total
    exact: Data = (merged["hi"].astype(object) << 32) + merged["lo"].astype(object)
    return exact


def _int_total(merged: MergedColumns) -> ValueColumn:
    return ValueColumn(_exact_total(merged), _has_values(merged))


def _int_mean(merged: MergedColumns) -> ValueColumn:
    total, counts = _exact_total(merged), np.maximum(merged["c"], 1)
    if (abs(total) > EXACT_DOUBLE).any():  # divided as Python divides: rounded once
        total, counts = total.astype(object), counts.astype(object)
    return ValueColumn((total / counts).astype(np.float64), _has_values(merged))


def _float_total(merged: MergedColumns) -> ValueColumn:
    return ValueColumn(merged["s"], _has_values(merged))


def _float_mean(merged: MergedColumns) -> ValueColumn:
    return ValueColumn(merged["s"] / np.maximum(merged["c"], 1), _has_values(merged))


def _var(merged: MergedColumns) -> ValueColumn:
    return ValueColumn(merged["m2"] / np.maximum(merged["c"] - 1, 1), _has_values(merged, 2))


def _stddev(merged: MergedColumns) -> ValueColumn:
    var = _var(merged)
    return ValueColumn(np.sqrt(var.data), var.valid)


FINISHERS: dict[tuple[Partial, str], Callable[[MergedColumns], ValueColumn]] = {
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
