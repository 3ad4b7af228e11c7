"""Schema evolution: adds new columns of a stream to the table of its sink; old rows have null there."""

import pyarrow as pa

from headrace.connectors.sinks.writer import TargetUnavailable
from headrace.declare.sinks.sink import OFFSET, PARTITION, Sink


def missing_columns(expected: pa.Schema, actual: pa.Schema, table: str, sink: Sink) -> list[pa.Field]:
    """The columns to add to a table; rejects a table that no sink created or that has a column of another type."""
    actual_types = {field.name: field.type for field in actual}
    is_sink_table = {PARTITION, OFFSET} <= actual_types.keys()
    for field in expected:
        if field.name in actual_types and actual_types[field.name] != field.type:
            raise TargetUnavailable(
                f"{sink.name}: {table} has {field.name!r} as {actual_types[field.name]}, and it is {field.type}. "
                f"Move the table away, or name another."
            )
        if field.name not in actual_types and not is_sink_table:
            raise TargetUnavailable(
                f"{sink.name}: {table} has no column {field.name!r}. Move the table away, or name another."
            )
    return [field for field in expected if field.name not in actual_types]
