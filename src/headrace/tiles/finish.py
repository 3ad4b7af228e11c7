"""From merged partials to the value a user asked for."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from headrace.declare.features.aggregates import Aggregate
from headrace.declare.streams.schema import Kind
from headrace.tiles.layout import PARTIAL_COLUMNS, AggregateSlot, ColumnBlock, HopLayout, Partial, to_slot
from headrace.tiles.sketches.distinct_count import estimate_distinct
from headrace.tiles.sketches.frequent_items import counts_by_value, most_frequent
from headrace.tiles.sketches.quantiles import estimate_quantile
from headrace.tiles.tile import Occurrence

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DATETIME_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
MIN_DATETIME_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
MergedValues = Sequence[Any]  # the window's fixed-width columns, each merged to one value
ObjectRows = Sequence[tuple[Any, ...]]  # of each row of the window, what has no fixed width
Finisher = Callable[[MergedValues, ObjectRows], Any]
_TIME_AND_ID = itemgetter(0, 1)


def to_datetime(time_us: int) -> datetime:
    """The moment that many microseconds after 1970, in UTC; what lies beyond the calendar is its first or last."""
    try:
        return EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return EPOCH + timedelta(microseconds=min(max(time_us, MIN_DATETIME_US), MAX_DATETIME_US))


def default_value(aggregate: Aggregate) -> int | dict[Any, int] | None:
    """The value where there is no event."""
    if aggregate.is_map_valued:
        return {}
    return 0 if aggregate.function in {"count", "distinct"} else None


def make_finisher(
    aggregate: Aggregate, layout: HopLayout, positions: dict[str, int], overlapping: bool = False
) -> Finisher:
    """The last step of an aggregate; `place` tells where in the merged columns one stands.

    Rows come by start and do not overlap, unless it is said that they may.
    """
    slot = to_slot(aggregate)
    slot_number = layout.slot_number(slot)
    if PARTIAL_COLUMNS[slot.partial][-1][1] is ColumnBlock.OBJECT:
        column = layout.object_names.index(f"v{slot_number}")
        finish = (
            _overlapping_object_finisher(aggregate, slot, column)
            if overlapping
            else _object_finisher(aggregate, slot, column)
        )
    else:
        columns = [positions[f"{suffix}{slot_number}"] for suffix, _ in PARTIAL_COLUMNS[slot.partial]]
        finish = _NUMERIC_FINISHERS[slot.partial, aggregate.function](*columns)
    return _finish_as_datetime(finish) if _is_timestamp(aggregate) else finish


def _is_timestamp(aggregate: Aggregate) -> bool:
    return aggregate.kind is Kind.TIMESTAMP and aggregate.function != "distinct"


def _finish_as_datetime(finish: Finisher) -> Finisher:
    def finish_datetime(merged: MergedValues, objects: ObjectRows) -> datetime | None:
        time_us = finish(merged, objects)
        return None if time_us is None else to_datetime(time_us)

    return finish_datetime


def _count(c: int) -> Finisher:
    return lambda merged, _: merged[c]


def _int_sum(c: int, hi: int, lo: int) -> Finisher:
    return lambda merged, _: (merged[hi] << 32) + merged[lo] if merged[c] else None


def _int_mean(c: int, hi: int, lo: int) -> Finisher:
    return lambda merged, _: ((merged[hi] << 32) + merged[lo]) / merged[c] if merged[c] else None


def _value(c: int, v: int) -> Finisher:
    return lambda merged, _: merged[v] if merged[c] else None


def _float_mean(c: int, s: int) -> Finisher:
    return lambda merged, _: merged[s] / merged[c] if merged[c] else None


def _stddev(c: int, _mean: int, m2: int) -> Finisher:
    return lambda merged, _: math.sqrt(merged[m2] / (merged[c] - 1)) if merged[c] > 1 else None


def _var(c: int, _mean: int, m2: int) -> Finisher:
    return lambda merged, _: merged[m2] / (merged[c] - 1) if merged[c] > 1 else None


def _decayed_mean(c: int, wx: int, w: int) -> Finisher:
    return lambda merged, _: merged[wx] / merged[w] if merged[c] else None


_NUMERIC_FINISHERS: dict[tuple[Partial, str], Callable[..., Finisher]] = {
    (Partial.COUNT, "count"): _count,
    (Partial.INT_SUM, "sum"): _int_sum,
    (Partial.INT_SUM, "mean"): _int_mean,
    (Partial.FLOAT_SUM, "sum"): _value,
    (Partial.FLOAT_SUM, "mean"): _float_mean,
    (Partial.MOMENTS, "stddev"): _stddev,
    (Partial.MOMENTS, "var"): _var,
    (Partial.DECAYED, "ewm"): _decayed_mean,
    (Partial.INT_MIN, "min"): _value,
    (Partial.INT_MAX, "max"): _value,
    (Partial.FLOAT_MIN, "min"): _value,
    (Partial.FLOAT_MAX, "max"): _value,
}


def _object_finisher(aggregate: Aggregate, slot: AggregateSlot, column: int) -> Finisher:
    match slot.partial:
        case Partial.FIRST:
            return lambda _, objects: _first_value(objects, column)
        case Partial.LAST:
            return lambda _, objects: _first_value(reversed(objects), column)
        case Partial.DISTINCT:
            return lambda _, objects: estimate_distinct(_present_values(objects, column))
        case Partial.QUANTILE:
            share = aggregate.share or 0.0
            return lambda _, objects: estimate_quantile(_present_values(objects, column), share)
        case Partial.TOP:
            k, kind = aggregate.k or 0, aggregate.kind or Kind.STRING
            if aggregate.is_map_valued:
                return lambda _, objects: counts_by_value(_present_values(objects, column), kind)
            return lambda _, objects: most_frequent(_present_values(objects, column), k, kind) or None
        case Partial.TEXT_MIN:
            return lambda _, objects: min(_present_values(objects, column), default=None)
        case _:
            return lambda _, objects: max(_present_values(objects, column), default=None)


def _overlapping_object_finisher(aggregate: Aggregate, slot: AggregateSlot, column: int) -> Finisher:
    """As `_of_objects`, where rows come by stream: their order decides only between events of one time and id."""
    match slot.partial:
        case Partial.FIRST:
            return lambda _, objects: _occurrence_value(
                min(_present_values(objects, column), key=_TIME_AND_ID, default=None)
            )
        case Partial.LAST:
            return lambda _, objects: _occurrence_value(
                max(_present_values(objects, column)[::-1], key=_TIME_AND_ID, default=None)
            )
        case _:
            return _object_finisher(aggregate, slot, column)


def _occurrence_value(occurrence: Occurrence | None) -> Any:
    return None if occurrence is None else occurrence[2]


def _first_value(objects: Iterable[tuple[Any, ...]], column: int) -> Any:
    """The first occurrence's value: tiles do not overlap and come by start, so nothing is compared."""
    for object_row in objects:
        if object_row[column] is not None:
            return object_row[column][2]
    return None


def _present_values(objects: ObjectRows, column: int) -> list[Any]:
    return [object_row[column] for object_row in objects if object_row[column] is not None]
