"""Partials with a sketch per tile: bytes of datasketches, the same from Spark and from Python."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from typing import Any

from headrace.aggregates.partial import (
    AggregateSlot,
    ColumnBlock,
    ObjectRows,
    Partial,
    SparkColumn,
    SparkFunctions,
    TileRuns,
)
from headrace.aggregates.value_columns import Data, Mask
from headrace.declare.streams.schema import Kind


class SketchPartial(Partial):
    """A sketch per tile, null without values."""

    columns = (("v", ColumnBlock.OBJECT),)
    needs_window_events = True
    is_sketch = True

    def build_sketch(self, values: Sequence[Any], size: int) -> bytes:
        """The sketch of values, in Python."""
        raise NotImplementedError

    def spark_sketch(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> SparkColumn:
        """The same sketch as a Spark aggregate."""
        raise NotImplementedError

    def fold(self, runs: TileRuns, data: Data, mask: Mask, slot: AggregateSlot) -> dict[str, Any]:
        tiles = runs.values_per_tile(data, mask)
        return {"v": [self.build_sketch(values, slot.size) if values else None for values in tiles]}

    def spark_columns(self, slot: AggregateSlot, value: SparkColumn, spark: SparkFunctions) -> dict[str, SparkColumn]:
        return {"v": self.spark_sketch(slot, value, spark)}

    def to_json(self, stored: Any, kind: Kind | None) -> str:
        return b2a_base64(stored, newline=False).decode()

    def from_json(self, encoded: Any, kind: Kind | None) -> bytes:
        return a2b_base64(encoded)

    def to_bytes(self, stored: Any, kind: Kind | None) -> bytes:
        return bytes(stored)

    def from_bytes(self, payload: bytes, kind: Kind | None) -> bytes:
        return payload


def present_values(objects: ObjectRows, column: int) -> list[Any]:
    """The non-null values of a column in the tiles of a window."""
    return [object_row[column] for object_row in objects if object_row[column] is not None]
