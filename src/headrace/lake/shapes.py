"""The columns of the lake's tables in Arrow, which every format understands."""

import pyarrow as pa

from headrace.declare.table_files import ARROW_TYPES
from headrace.lake.landing import HEADERS, Landing

OF_SPARK: dict[str, pa.DataType] = {
    **ARROW_TYPES,
    "binary": pa.binary(),
    "date": pa.date32(),
    HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
# What Iceberg has no type for is kept in the next larger one.
WIDER = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}


def schema_of(landing: Landing) -> pa.Schema:
    """The columns of a landing."""
    return pa.schema([(column.name, OF_SPARK[column.type]) for column in landing.columns])


def spark_word(arrow_type: pa.DataType) -> str:
    """A type in the words of a declaration.

    >>> spark_word(pa.int64())
    'bigint'
    """
    return next((word for word, known in OF_SPARK.items() if known == arrow_type), str(arrow_type))


def widened(schema: pa.Schema) -> pa.Schema:
    """Columns in types that Iceberg has.

    >>> widened(pa.schema([("tiny", pa.int8())])).field("tiny").type
    DataType(int32)
    """
    return pa.schema([(field.name, WIDER.get(field.type, field.type)) for field in schema])


def plain(schema: pa.Schema) -> pa.Schema:
    """Columns in types as declarations have them: Iceberg gives texts, bytes and lists back as large ones."""
    return pa.schema([(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind
