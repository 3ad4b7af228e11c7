"""The columns of tables as SQL names them: those a view declares, and those a table has."""

from collections.abc import Mapping

import pyarrow as pa

from headrace.declare.schema import Kind
from headrace.declare.views import Feature, View

Columns = Mapping[str, str]

EVENT_TIME = "hr_event_time"
SQL_TYPES = {
    Kind.STRING: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TIMESTAMP: "TIMESTAMPTZ",
}
LARGE_SUM = "DECIMAL(38,0)"
OF_ARROW = {
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMPTZ",
    pa.timestamp("us"): "TIMESTAMP",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
}


def live_columns(view: View) -> dict[str, str]:
    """A view's live table: its key, every feature, and when the newest event of its windows happened."""
    keys = {column.name: SQL_TYPES[column.kind] for column in view.entity}
    kept = {feature.name: _type_of(feature, view) for feature in view.features}
    derived = {one.name: SQL_TYPES[one.kind] for one in view.derived}
    return keys | kept | derived | {EVENT_TIME: SQL_TYPES[Kind.TIMESTAMP]}


def _type_of(feature: Feature, view: View) -> str:
    """The type of a feature; sums of 64-bit integers may pass 64 bits."""
    aggregate = feature.aggregate
    match aggregate.function, aggregate.kind:
        case "count" | "distinct", _:
            return SQL_TYPES[Kind.INTEGER]
        case "sum", Kind.INTEGER:
            column = view.schema.column(str(aggregate.column), view.name)
            return LARGE_SUM if column.type == "bigint" else SQL_TYPES[Kind.INTEGER]
        case "top", Kind() as kind:
            return f"{SQL_TYPES[kind]}[]"
        case "count_by", Kind() as kind:
            return f"MAP({SQL_TYPES[kind]}, BIGINT)"
        case (("min" | "max" | "first" | "last"), Kind() as kind):
            return SQL_TYPES[kind]
    return SQL_TYPES[Kind.DOUBLE]


def columns_of(schema: pa.Schema) -> dict[str, str]:
    """The columns of a table."""
    return {field.name: sql_type(field.type) for field in schema}


def sql_type(arrow_type: pa.DataType) -> str:
    """What SQL calls a type.

    >>> sql_type(pa.list_(pa.int64()))
    'BIGINT[]'
    """
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return f"{sql_type(arrow_type.value_type)}[]"
    if pa.types.is_map(arrow_type):
        return f"MAP({sql_type(arrow_type.key_type)}, {sql_type(arrow_type.item_type)})"
    if pa.types.is_struct(arrow_type):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {sql_type(field.type)}' for field in arrow_type)})"
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    return OF_ARROW[arrow_type]


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it.

    >>> quoted("payments-eu")
    '"payments-eu"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL takes it.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def refusing(columns: Columns, sentence: str) -> str:
    """A query that has these columns, and raises a sentence as soon as a row is wanted of it."""
    # Each column leans on the error, and so does the row: whatever a query leaves out, it meets one of them.
    selected = ", ".join(f"e::{kind} AS {quoted(name)}" for name, kind in columns.items())
    return f"SELECT {selected} FROM (SELECT error({text(sentence)}) AS e) WHERE e IS NULL"  # noqa: S608  # all quoted
