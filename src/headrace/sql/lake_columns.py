"""The columns of a table of the lake as SQL types."""

import pyarrow as pa

from headrace.sql.live_columns import quote_identifier

SQL_TYPE_OF_ARROW = {
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


def to_sql_columns(schema: pa.Schema) -> dict[str, str]:
    """The columns of a table."""
    return {field.name: to_sql_type(field.type) for field in schema}


def to_sql_type(arrow_type: pa.DataType) -> str:
    """The SQL type of an Arrow type.

    >>> to_sql_type(pa.list_(pa.int64()))
    'BIGINT[]'
    """
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return f"{to_sql_type(arrow_type.value_type)}[]"
    if pa.types.is_map(arrow_type):
        return f"MAP({to_sql_type(arrow_type.key_type)}, {to_sql_type(arrow_type.item_type)})"
    if pa.types.is_struct(arrow_type):
        return (
            f"STRUCT({', '.join(f'{quote_identifier(field.name)} {to_sql_type(field.type)}' for field in arrow_type)})"
        )
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    return SQL_TYPE_OF_ARROW[arrow_type]
