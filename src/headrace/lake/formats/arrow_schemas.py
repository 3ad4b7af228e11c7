"""The schemas of the lake's tables in Arrow, which every format supports."""

import pyarrow as pa

from headrace.declare.streams.table_files import ARROW_TYPES
from headrace.kafka.headers import SPARK_HEADERS_TYPE
from headrace.lake.ingestion.table_mapping import TableMapping

ARROW_TYPE_OF_SPARK: dict[str, pa.DataType] = {
    **ARROW_TYPES,
    "binary": pa.binary(),
    "date": pa.date32(),
    SPARK_HEADERS_TYPE: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
# Types that Iceberg lacks are stored as the next larger one.
ICEBERG_TYPE_OF_ARROW = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}


def arrow_schema(mapping: TableMapping) -> pa.Schema:
    """The Arrow schema of a lake table."""
    return pa.schema([(column.name, ARROW_TYPE_OF_SPARK[column.type]) for column in mapping.columns])


def spark_type_name(arrow_type: pa.DataType) -> str:
    """The name of a type in declarations.

    >>> spark_type_name(pa.int64())
    'bigint'
    """
    return next(
        (type_name for type_name, known_type in ARROW_TYPE_OF_SPARK.items() if known_type == arrow_type),
        str(arrow_type),
    )


def to_iceberg_schema(schema: pa.Schema) -> pa.Schema:
    """Convert columns to types that Iceberg supports.

    >>> to_iceberg_schema(pa.schema([("tiny", pa.int8())])).field("tiny").type
    DataType(int32)
    """
    return pa.schema([(field.name, ICEBERG_TYPE_OF_ARROW.get(field.type, field.type)) for field in schema])


def from_iceberg_schema(schema: pa.Schema) -> pa.Schema:
    """Convert columns to the types of declarations: Iceberg returns texts, bytes and lists as large ones."""
    return pa.schema([(field.name, _from_iceberg_type(field.type)) for field in schema])


def _from_iceberg_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(arrow_type):
        return pa.string()
    if pa.types.is_large_binary(arrow_type):
        return pa.binary()
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return pa.list_(_from_iceberg_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([(field.name, _from_iceberg_type(field.type)) for field in arrow_type])
    return arrow_type
