"""The partial aggregates of a slot as native Spark aggregates, and a tile's value as JSON."""

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.declare.streams.schema import Kind
from headrace.tiles.layout import PARTIAL_COLUMNS, SKETCH_PARTIALS, AggregateSlot, HopLayout, Partial
from headrace.tiles.sketches.frequent_items import MAX_TEXT_LENGTH

LOW_32_BITS = 0xFFFFFFFF

NamedColumn = tuple[str, Column]


def partial_columns(slot: AggregateSlot, value: Column | None, is_counted: Column) -> list[NamedColumn]:
    """(suffix, aggregate) of each column of a slot, over the rows for which `counts` is true."""
    if value is None:
        return [("c", F.count(F.when(is_counted, F.lit(1))))]
    value = F.unix_micros(value) if slot.kind is Kind.TIMESTAMP else value
    counted_value = F.when(is_counted, value)
    return [("c", F.count(counted_value)), *_AGGREGATES[slot.partial](slot, counted_value)]


def _int_sum(_: AggregateSlot, counted_value: Column) -> list[NamedColumn]:
    """Two halves, so that no sum passes 64 bits."""
    low = counted_value.bitwiseAND(F.lit(LOW_32_BITS))
    return [("hi", F.sum(F.shiftright(counted_value, 32))), ("lo", F.sum(low))]


def _moments(_: AggregateSlot, counted_value: Column) -> list[NamedColumn]:
    number = counted_value.cast("double")
    return [("mean", F.avg(number)), ("m2", F.var_pop(number) * F.count(number))]


def _decayed_sums(slot: AggregateSlot, counted_value: Column) -> list[NamedColumn]:
    weight = F.when(counted_value.isNotNull(), _decayed_weight(slot.size))
    return [("wx", F.sum(counted_value.cast("double") * weight)), ("w", F.sum(weight))]


def _decayed_weight(halflife_us: int) -> Column:
    """Half for each half-life that an event lies before its tile's end."""
    return F.pow(F.lit(2.0), (F.col("event_us") - F.unix_micros("end")) / F.lit(float(halflife_us)))


def _with_event_time(counted_value: Column) -> Column:
    """A value after its event time and id, so that the order of structs is the order of events."""
    return F.when(
        counted_value.isNotNull(),
        F.struct(F.col("event_us").alias("t"), F.col("id").alias("i"), counted_value.alias("v")),
    )


def _sketch_input(slot: AggregateSlot, counted_value: Column) -> Column:
    # A sketch passes over the empty string; with a prefix it counts like any other.
    return F.concat(F.lit("="), counted_value) if slot.kind is Kind.STRING else counted_value.cast("bigint")


def _frequent_items_sketch(slot: AggregateSlot, counted_value: Column) -> Column:
    is_text = slot.kind is Kind.STRING
    value = F.left(counted_value, F.lit(MAX_TEXT_LENGTH)) if is_text else counted_value.cast("bigint")
    # Spark makes the map the next power of two above 4/3 of what it is asked to track.
    accumulated = F.call_function("approx_top_k_accumulate", value, F.lit(1 << (slot.size - 1)))
    return accumulated.getField("sketch")


_AGGREGATES: dict[Partial, Callable[[AggregateSlot, Column], list[NamedColumn]]] = {
    Partial.INT_SUM: _int_sum,
    Partial.FLOAT_SUM: lambda _, taken: [("s", F.sum(taken))],
    Partial.MOMENTS: _moments,
    Partial.DECAYED: _decayed_sums,
    Partial.INT_MIN: lambda _, taken: [("v", F.min(taken))],
    Partial.INT_MAX: lambda _, taken: [("v", F.max(taken))],
    Partial.FLOAT_MIN: lambda _, taken: [("v", F.min(taken))],
    Partial.FLOAT_MAX: lambda _, taken: [("v", F.max(taken))],
    Partial.TEXT_MIN: lambda _, taken: [("v", F.min(taken))],
    Partial.TEXT_MAX: lambda _, taken: [("v", F.max(taken))],
    Partial.FIRST: lambda _, taken: [("v", F.min(_with_event_time(taken)))],
    Partial.LAST: lambda _, taken: [("v", F.max(_with_event_time(taken)))],
    Partial.DISTINCT: lambda slot, taken: [("v", F.hll_sketch_agg(_sketch_input(slot, taken), slot.size))],
    Partial.QUANTILE: lambda slot, taken: [("v", F.kll_sketch_agg_double(taken.cast("double"), slot.size))],
    Partial.TOP: lambda slot, taken: [("v", _frequent_items_sketch(slot, taken))],
}


def tile_value_json(layout: HopLayout, column_numbers: Mapping[AggregateSlot, int]) -> Column:
    """A tile's value: its head and the partials of its layout that are fed, under the names the layout gives them."""
    fields = [F.col("n"), F.col("t"), F.col("a")]
    for number, slot in enumerate(layout.slots):
        for suffix, _ in PARTIAL_COLUMNS[slot.partial] if slot in column_numbers else ():
            column = F.col(f"{suffix}_{column_numbers[slot]}")
            is_sketch = slot.partial in SKETCH_PARTIALS and suffix == "v"
            fields.append((F.base64(column) if is_sketch else column).alias(f"{suffix}{number}"))
    return F.to_json(F.struct(*fields))
