"""The stateful merges of a layout: the slots whose columns are merged together, not column by column."""

from collections.abc import Mapping

from headrace.aggregates.partial import ColumnBlock
from headrace.aggregates.stateful_merge import ColumnPosition, StatefulMerge
from headrace.tiles.layout import HopLayout


def stateful_merges(layout: HopLayout, positions: Mapping[str, int]) -> list[StatefulMerge]:
    """The merges of a layout's slots, in the order of their columns; `positions` are indexes of unpacked columns."""
    return [
        slot.partial.stateful_merge(
            slot,
            {
                suffix: ColumnPosition(positions[f"{suffix}{number}"], layout.positions[f"{suffix}{number}"])
                for suffix, _ in slot.partial.all_columns
            },
        )
        for number, slot in enumerate(layout.slots)
        if any(block is ColumnBlock.FLOAT_STATEFUL for _, block in slot.partial.columns)
    ]
