"""The partial aggregates of a slot as native Spark aggregates, and a tile's value as JSON."""

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.declare.schema import Kind
from headrace.tiles.frequent import LONGEST_TEXT
from headrace.tiles.layout import COLUMNS, SKETCHES, HopLayout, Partial, Slot

LOW_32_BITS = 0xFFFFFFFF

Named = tuple[str, Column]


def partial_columns(slot: Slot, value: Column | None, counts: Column) -> list[Named]:
    """(suffix, aggregate) of each column of a slot, over the rows for which `counts` is true."""
    if value is None:
        return [("c", F.count(F.when(counts, F.lit(1))))]
    value = F.unix_micros(value) if slot.kind is Kind.TIMESTAMP else value
    taken = F.when(counts, value)
    return [("c", F.count(taken)), *_FOLDS[slot.partial](slot, taken)]


def _int_sum(_: Slot, taken: Column) -> list[Named]:
    """Two halves, so that no sum passes 64 bits."""
    low = taken.bitwiseAND(F.lit(LOW_32_BITS))
    return [("hi", F.sum(F.shiftright(taken, 32))), ("lo", F.sum(low))]


def _moments(_: Slot, taken: Column) -> list[Named]:
    number = taken.cast("double")
    return [("mean", F.avg(number)), ("m2", F.var_pop(number) * F.count(number))]


def _decayed(slot: Slot, taken: Column) -> list[Named]:
    weight = F.when(taken.isNotNull(), _decayed_weight(slot.size))
    return [("wx", F.sum(taken.cast("double") * weight)), ("w", F.sum(weight))]


def _decayed_weight(halflife_us: int) -> Column:
    """Half for each half-life that an event lies before its tile's end."""
    return F.pow(F.lit(2.0), (F.col("event_us") - F.unix_micros("end")) / F.lit(float(halflife_us)))


def _dated(taken: Column) -> Column:
    """A value after its event time and id, so that the order of structs is the order of events."""
    return F.when(taken.isNotNull(), F.struct(F.col("event_us").alias("t"), F.col("id").alias("i"), taken.alias("v")))


def _hashed(slot: Slot, taken: Column) -> Column:
    # A sketch passes over the empty string; with a prefix it counts like any other.
    return F.concat(F.lit("="), taken) if slot.kind is Kind.STRING else taken.cast("bigint")


def _frequent(slot: Slot, taken: Column) -> Column:
    is_text = slot.kind is Kind.STRING
    value = F.left(taken, F.lit(LONGEST_TEXT)) if is_text else taken.cast("bigint")
    # Spark makes the map the next power of two above 4/3 of what it is asked to track.
    accumulated = F.call_function("approx_top_k_accumulate", value, F.lit(1 << (slot.size - 1)))
    return accumulated.getField("sketch")


_FOLDS: dict[Partial, Callable[[Slot, Column], list[Named]]] = {
    Partial.INT_SUM: _int_sum,
    Partial.FLOAT_SUM: lambda _, taken: [("s", F.sum(taken))],
    Partial.MOMENTS: _moments,
    Partial.DECAYED: _decayed,
    Partial.INT_MIN: lambda _, taken: [("v", F.min(taken))],
    Partial.INT_MAX: lambda _, taken: [("v", F.max(taken))],
    Partial.FLOAT_MIN: lambda _, taken: [("v", F.min(taken))],
    Partial.FLOAT_MAX: lambda _, taken: [("v", F.max(taken))],
    Partial.TEXT_MIN: lambda _, taken: [("v", F.min(taken))],
    Partial.TEXT_MAX: lambda _, taken: [("v", F.max(taken))],
    Partial.FIRST: lambda _, taken: [("v", F.min(_dated(taken)))],
    Partial.LAST: lambda _, taken: [("v", F.max(_dated(taken)))],
    Partial.DISTINCT: lambda slot, taken: [("v", F.hll_sketch_agg(_hashed(slot, taken), slot.size))],
    Partial.QUANTILE: lambda slot, taken: [("v", F.kll_sketch_agg_double(taken.cast("double"), slot.size))],
    Partial.TOP: lambda slot, taken: [("v", _frequent(slot, taken))],
}


def value_json(layout: HopLayout, places: Mapping[Slot, int]) -> Column:
    """A tile's value: its head and the partials of its layout that are fed, under the names the layout gives them."""
    fields = [F.col("n"), F.col("t"), F.col("a")]
    for number, slot in enumerate(layout.slots):
        for suffix, _ in COLUMNS[slot.partial] if slot in places else ():
            column = F.col(f"{suffix}_{places[slot]}")
            is_sketch = slot.partial in SKETCHES and suffix == "v"
            fields.append((F.base64(column) if is_sketch else column).alias(f"{suffix}{number}"))
    return F.to_json(F.struct(*fields))
