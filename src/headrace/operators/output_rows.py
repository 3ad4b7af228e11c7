"""What an operator makes, as a row of the stream it is derived to."""

from collections.abc import Sequence
from typing import Any

from headrace.declare.operations.operation import DerivedStream
from headrace.operators.operator import Key, OutputEvent


def to_output_row(output: OutputEvent, key: Key, key_columns: Sequence[str], stream: DerivedStream) -> dict[str, Any]:
    """The columns of the stream: those of the key, what was made, its id, its time and when it was known."""
    values = {
        **dict(zip(key_columns, key, strict=True)),
        stream.time: output.time_us,
        **output.values,
        stream.id: output.id,
        str(stream.arrival): output.known_us,
    }
    return {name: values.get(name) for name in stream.schema.names}
