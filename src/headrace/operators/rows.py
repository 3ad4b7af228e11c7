"""What an operator makes, as a row of the stream it is derived to."""

from collections.abc import Sequence
from typing import Any

from headrace.declare.derivation import Derived
from headrace.operators.operator import Key, Made


def row_of(made: Made, key: Key, by: Sequence[str], stream: Derived) -> dict[str, Any]:
    """The columns of the stream: those of the key, what was made, its id, its time and when it was known."""
    said = {
        **dict(zip(by, key, strict=True)),
        stream.time: made.time_us,
        **made.values,
        stream.id: made.id,
        str(stream.arrival): made.known_us,
    }
    return {name: said.get(name) for name in stream.schema.names}
