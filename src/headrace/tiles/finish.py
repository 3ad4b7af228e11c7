"""Finishes aggregates: from merged partials to feature values."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.aggregates.aggregate_function import aggregate_function, to_slot
from headrace.aggregates.partial import ColumnBlock, Finisher, MergedValues, ObjectRows, SlotColumns
from headrace.declare.features.aggregates import Aggregate
from headrace.declare.streams.schema import Kind
from headrace.tiles.layout import HopLayout

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DATETIME_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
MIN_DATETIME_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
NOT_MERGED = -1  # the count of object partials, which is not merged


def to_datetime(time_us: int) -> datetime:
    """A UTC datetime from microseconds since 1970, clamped to the range of datetime."""
    try:
        return EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return EPOCH + timedelta(microseconds=min(max(time_us, MIN_DATETIME_US), MAX_DATETIME_US))


def default_value(aggregate: Aggregate) -> Any:
    """The value without any event."""
    return aggregate_function(aggregate.function).default_value()


def make_finisher(
    aggregate: Aggregate, layout: HopLayout, positions: Mapping[str, int], overlapping: bool = False
) -> Finisher:
    """The last step of an aggregate; `positions` has the indexes of its merged columns.

    Rows are ordered by start and do not overlap, unless `overlapping` is set.
    """
    slot = to_slot(aggregate)
    slot_number = layout.slot_number(slot)
    columns = {
        suffix: layout.object_names.index(f"{suffix}{slot_number}")
        if block is ColumnBlock.OBJECT
        else positions.get(f"{suffix}{slot_number}", NOT_MERGED)
        for suffix, block in slot.partial.all_columns
    }
    finish = aggregate_function(aggregate.function).make_finisher(aggregate, SlotColumns(columns, overlapping))
    return _finish_as_datetime(finish) if aggregate.result_type.kind is Kind.TIMESTAMP else finish


def _finish_as_datetime(finish: Finisher) -> Finisher:
    def finish_datetime(merged: MergedValues, objects: ObjectRows) -> datetime | None:
        time_us = finish(merged, objects)
        return None if time_us is None else to_datetime(time_us)

    return finish_datetime
