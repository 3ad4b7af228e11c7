"""The partial aggregates of a slot as native Spark aggregates, and a tile's value as JSON."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.aggregates.partial import AggregateSlot, ColumnBlock
from headrace.declare.streams.schema import Kind
from headrace.tiles.layout import HopLayout

NamedColumn = tuple[str, Column]


def partial_columns(slot: AggregateSlot, value: Column | None, is_counted: Column) -> list[NamedColumn]:
    """(suffix, aggregate) of each column of a slot, over the rows for which `is_counted` is true."""
    if value is None:
        return [("c", F.count(F.when(is_counted, F.lit(1))))]
    value = F.unix_micros(value) if slot.kind is Kind.TIMESTAMP else value
    counted_value = F.when(is_counted, value)
    return [("c", F.count(counted_value)), *slot.partial.spark_columns(slot, counted_value, F).items()]


def tile_value_json(layout: HopLayout, column_numbers: Mapping[AggregateSlot, int]) -> Column:
    """A tile's value: its head and the partials of its layout that are fed, under the layout's names."""
    fields = [F.col("n"), F.col("t"), F.col("a")]
    for number, slot in enumerate(layout.slots):
        for suffix, block in slot.partial.all_columns if slot in column_numbers else ():
            column = F.col(f"{suffix}_{column_numbers[slot]}")
            is_sketch = slot.partial.is_sketch and block is ColumnBlock.OBJECT
            fields.append((F.base64(column) if is_sketch else column).alias(f"{suffix}{number}"))
    return F.to_json(F.struct(*fields))
