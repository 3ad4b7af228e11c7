"""Features in Arrow: their types, and the way of columns to the kernel of expressions and back."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.declare.features.view import Feature, View
from headrace.declare.streams.schema import Kind
from headrace.tiles.events.event_columns import ValueColumn

ARROW_TYPES = {
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
LARGE_SUM_TYPE = pa.decimal128(38, 0)


def output_type(feature: Feature, view: View) -> pa.DataType:
    """The type of a feature's column; sums of 64-bit integers may pass 64 bits."""
    aggregate = feature.aggregate
    match aggregate.function, aggregate.kind:
        case "count" | "distinct", _:
            return pa.int64()
        case "sum", Kind.INTEGER:
            column = view.schema.column(str(aggregate.column), view.name)
            return LARGE_SUM_TYPE if column.type == "bigint" else pa.int64()
        case "top", Kind() as kind:
            return pa.list_(ARROW_TYPES[kind])
        case "count_by", Kind() as kind:
            return pa.map_(ARROW_TYPES[kind], pa.int64())
        case (("min" | "max" | "first" | "last"), Kind() as kind):
            return ARROW_TYPES[kind]
    return pa.float64()


def from_arrow(column: pa.Array, kind: Kind) -> ValueColumn:
    """An Arrow column as expressions read it."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    match kind:
        case Kind.STRING:
            return ValueColumn(pc.fill_null(column, "").to_numpy(zero_copy_only=False), valid)
        case Kind.BOOLEAN:
            return ValueColumn(pc.fill_null(column, False).to_numpy(zero_copy_only=False), valid)
        case Kind.DOUBLE:
            return ValueColumn(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(), valid)
    return ValueColumn(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), valid)


def to_arrow(values: ValueColumn, kind: Kind) -> pa.Array:
    """A computed column in Arrow."""
    return pa.array(values.data, mask=~values.valid).cast(ARROW_TYPES[kind])
