"""Columns that a stream has gained since the table of its sink was made: they are added to it, as null in old rows."""

import pyarrow as pa

from headrace.declare.sink import OFFSET, PARTITION, Sink
from headrace.sink.writer import Away


def missing_columns(wanted: pa.Schema, found: pa.Schema, table: str, sink: Sink) -> list[pa.Field]:
    """The columns to add to a table; one that no sink made, or that has a column of another type, is refused."""
    types = {field.name: field.type for field in found}
    is_ours = {PARTITION, OFFSET} <= types.keys()
    for field in wanted:
        if field.name in types and types[field.name] != field.type:
            raise Away(
                f"{sink.name}: {table} has {field.name!r} as {types[field.name]}, and it is {field.type}. "
                f"Move the table away, or name another."
            )
        if field.name not in types and not is_ours:
            raise Away(f"{sink.name}: {table} has no column {field.name!r}. Move the table away, or name another.")
    return [field for field in wanted if field.name not in types]
