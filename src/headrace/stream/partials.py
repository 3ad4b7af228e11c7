"""The partial aggregates of a slot as native Spark aggregates, and a tile's value as JSON."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.declare.schema import Kind
from headrace.tiles.layout import COLUMNS, SKETCHES, HopLayout, Partial, Slot

LOW_32_BITS = 0xFFFFFFFF


def partial_columns(slot: Slot, value: Column | None, counts: Column) -> list[tuple[str, Column]]:
    """(suffix, aggregate) of each column of a slot, over the rows for which `counts` is true."""
    if value is None:
        return [("c", F.count(F.when(counts, F.lit(1))))]
    value = F.unix_micros(value) if slot.kind is Kind.TIMESTAMP else value
    taken = F.when(counts, value)
    return [("c", F.count(taken)), *_folded(slot, taken)]


def _folded(slot: Slot, taken: Column) -> list[tuple[str, Column]]:
    match slot.partial:
        case Partial.INT_SUM:
            low = taken.bitwiseAND(F.lit(LOW_32_BITS))
            return [("hi", F.sum(F.shiftright(taken, 32))), ("lo", F.sum(low))]
        case Partial.FLOAT_SUM:
            return [("s", F.sum(taken))]
        case Partial.MOMENTS:
            number = taken.cast("double")
            return [("mean", F.avg(number)), ("m2", F.var_pop(number) * F.count(number))]
        case Partial.INT_MIN | Partial.FLOAT_MIN | Partial.TEXT_MIN:
            return [("v", F.min(taken))]
        case Partial.INT_MAX | Partial.FLOAT_MAX | Partial.TEXT_MAX:
            return [("v", F.max(taken))]
        case Partial.FIRST:
            return [("v", F.min(_dated(taken)))]
        case Partial.LAST:
            return [("v", F.max(_dated(taken)))]
        case Partial.DISTINCT:
            return [("v", F.hll_sketch_agg(_hashed(slot, taken), slot.size))]
        case Partial.QUANTILE:
            return [("v", F.kll_sketch_agg_double(taken.cast("double"), slot.size))]
    raise AssertionError(f"no Spark aggregate folds {slot.partial}")


def _dated(taken: Column) -> Column:
    """A value after its event time and id, so that the order of structs is the order of events."""
    return F.when(taken.isNotNull(), F.struct(F.col("event_us").alias("t"), F.col("id").alias("i"), taken.alias("v")))


def _hashed(slot: Slot, taken: Column) -> Column:
    # A sketch passes over the empty string; with a prefix it counts like any other.
    return F.concat(F.lit("="), taken) if slot.kind is Kind.STRING else taken.cast("bigint")


def value_json(layout: HopLayout, slots: tuple[Slot, ...]) -> Column:
    """A tile's value: its head and the partials of its layout, under the names the layout gives them."""
    fields = [F.col("n"), F.col("t"), F.col("a")]
    for number, slot in enumerate(layout.slots):
        for suffix, _ in COLUMNS[slot.partial]:
            column = F.col(f"{suffix}_{slots.index(slot)}")
            is_sketch = slot.partial in SKETCHES and suffix == "v"
            fields.append((F.base64(column) if is_sketch else column).alias(f"{suffix}{number}"))
    return F.to_json(F.struct(*fields))
