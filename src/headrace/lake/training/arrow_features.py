"""Features in Arrow: their types, and the conversion of columns for the expression kernel."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.value_columns import ValueColumn
from headrace.declare.features.aggregate_rules import Shape
from headrace.declare.features.view import Feature, View
from headrace.declare.streams.schema import Kind

ARROW_TYPES = {
    Kind.STRING: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
LARGE_SUM_TYPE = pa.decimal128(38, 0)


def output_type(feature: Feature, view: View) -> pa.DataType:
    """The type of a feature's column; sums of 64-bit integers may exceed 64 bits."""
    result = feature.aggregate.result_type
    if result.is_unbounded and view.schema.column(str(feature.aggregate.column), view.name).type == "bigint":
        return LARGE_SUM_TYPE
    arrow_type = ARROW_TYPES[result.kind]
    if result.shape is Shape.LIST:
        return pa.list_(arrow_type)
    return pa.map_(arrow_type, pa.int64()) if result.shape is Shape.MAP else arrow_type


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
