"""From merged partials to the value a user asked for."""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from headrace.declare.aggregates import Aggregate
from headrace.declare.schema import Kind
from headrace.tiles.frequent import counts_by_value, most_frequent
from headrace.tiles.layout import COLUMNS, Block, HopLayout, Partial, Slot, slot_of
from headrace.tiles.quantiles import quantile_in
from headrace.tiles.sketches import distinct_in
from headrace.tiles.tile import Occurrence

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
Merged = Sequence[Any]  # the window's fixed-width columns, each merged to one value
Objects = Sequence[tuple[Any, ...]]  # of each row of the window, what has no fixed width
Finish = Callable[[Merged, Objects], Any]
_TIME_AND_ID = itemgetter(0, 1)


def moment(time_us: int) -> datetime:
    """The moment that many microseconds after 1970, in UTC; what lies beyond the calendar is its first or last."""
    try:
        return EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return EPOCH + timedelta(microseconds=min(max(time_us, FIRST_US), LAST_US))


def default_of(aggregate: Aggregate) -> int | dict[Any, int] | None:
    """The value where there is no event."""
    if aggregate.gives_a_map:
        return {}
    return 0 if aggregate.function in {"count", "distinct"} else None


def finisher(aggregate: Aggregate, layout: HopLayout, place: dict[str, int], overlapping: bool = False) -> Finish:
    """The last step of an aggregate; `place` tells where in the merged columns one stands.

    Rows come by start and do not overlap, unless it is said that they may.
    """
    slot = slot_of(aggregate)
    number = layout.slot_number(slot)
    if COLUMNS[slot.partial][-1][1] is Block.OBJECT:
        column = layout.objects.index(f"v{number}")
        finish = _of_overlapping(aggregate, slot, column) if overlapping else _of_objects(aggregate, slot, column)
    else:
        columns = [place[f"{suffix}{number}"] for suffix, _ in COLUMNS[slot.partial]]
        finish = _OF_NUMBERS[slot.partial, aggregate.function](*columns)
    return _as_moment(finish) if _is_moment(aggregate) else finish


def _is_moment(aggregate: Aggregate) -> bool:
    return aggregate.kind is Kind.TIMESTAMP and aggregate.function != "distinct"


def _as_moment(finish: Finish) -> Finish:
    def finish_moment(merged: Merged, objects: Objects) -> datetime | None:
        time_us = finish(merged, objects)
        return None if time_us is None else moment(time_us)

    return finish_moment


def _count(c: int) -> Finish:
    return lambda merged, _: merged[c]


def _int_sum(c: int, hi: int, lo: int) -> Finish:
    return lambda merged, _: (merged[hi] << 32) + merged[lo] if merged[c] else None


def _int_mean(c: int, hi: int, lo: int) -> Finish:
    return lambda merged, _: ((merged[hi] << 32) + merged[lo]) / merged[c] if merged[c] else None


def _value(c: int, v: int) -> Finish:
    return lambda merged, _: merged[v] if merged[c] else None


def _float_mean(c: int, s: int) -> Finish:
    return lambda merged, _: merged[s] / merged[c] if merged[c] else None


def _stddev(c: int, _mean: int, m2: int) -> Finish:
    return lambda merged, _: math.sqrt(merged[m2] / (merged[c] - 1)) if merged[c] > 1 else None


def _var(c: int, _mean: int, m2: int) -> Finish:
    return lambda merged, _: merged[m2] / (merged[c] - 1) if merged[c] > 1 else None


def _decayed_mean(c: int, wx: int, w: int) -> Finish:
    return lambda merged, _: merged[wx] / merged[w] if merged[c] else None


_OF_NUMBERS: dict[tuple[Partial, str], Callable[..., Finish]] = {
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


def _of_objects(aggregate: Aggregate, slot: Slot, column: int) -> Finish:
    match slot.partial:
        case Partial.FIRST:
            return lambda _, objects: _first_value(objects, column)
        case Partial.LAST:
            return lambda _, objects: _first_value(reversed(objects), column)
        case Partial.DISTINCT:
            return lambda _, objects: distinct_in(_present(objects, column))
        case Partial.QUANTILE:
            share = aggregate.share or 0.0
            return lambda _, objects: quantile_in(_present(objects, column), share)
        case Partial.TOP:
            k, kind = aggregate.k or 0, aggregate.kind or Kind.STRING
            if aggregate.gives_a_map:
                return lambda _, objects: counts_by_value(_present(objects, column), kind)
            return lambda _, objects: most_frequent(_present(objects, column), k, kind) or None
        case Partial.TEXT_MIN:
            return lambda _, objects: min(_present(objects, column), default=None)
        case _:
            return lambda _, objects: max(_present(objects, column), default=None)


def _of_overlapping(aggregate: Aggregate, slot: Slot, column: int) -> Finish:
    """As `_of_objects`, where rows come by stream: their order decides only between events of one time and id."""
    match slot.partial:
        case Partial.FIRST:
            return lambda _, objects: _value_of(min(_present(objects, column), key=_TIME_AND_ID, default=None))
        case Partial.LAST:
            return lambda _, objects: _value_of(max(_present(objects, column)[::-1], key=_TIME_AND_ID, default=None))
        case _:
            return _of_objects(aggregate, slot, column)


def _value_of(occurrence: Occurrence | None) -> Any:
    return None if occurrence is None else occurrence[2]


def _first_value(objects: Iterable[tuple[Any, ...]], column: int) -> Any:
    """The first occurrence's value: tiles do not overlap and come by start, so nothing is compared."""
    for stored in objects:
        if stored[column] is not None:
            return stored[column][2]
    return None


def _present(objects: Objects, column: int) -> list[Any]:
    return [stored[column] for stored in objects if stored[column] is not None]
