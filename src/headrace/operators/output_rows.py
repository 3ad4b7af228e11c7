"""Converts an operator's output to a row of its derived stream."""

from collections.abc import Sequence
from typing import Any

from headrace.declare.operations.derived_stream import DerivedStream
from headrace.operators.operator import Key, OutputEvent


def to_output_row(output: OutputEvent, key: Key, key_columns: Sequence[str], stream: DerivedStream) -> dict[str, Any]:
    """The columns of the stream: those of the key, the values, the id, the time and the known-at time."""
    values = {
        **dict(zip(key_columns, key, strict=True)),
        stream.time: output.time_us,
        **output.values,
        stream.id: output.id,
        str(stream.arrival): output.known_us,
    }
    return {name: values.get(name) for name in stream.schema.names}
