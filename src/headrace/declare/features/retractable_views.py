"""Views of a captured table: features of its current rows, each row in the windows of its last change.

update of row 7, FR → DE        FR: row 7 is removed from its tile, which is folded again
                                DE: row 7 is added to the current tile

A change is read twice: once by the entity the row leaves, once by the one it enters.
"""

from dataclasses import dataclass

from headrace.declare.durations import UNITS_US
from headrace.declare.features.view import View
from headrace.declare.operations.derived_stream import StreamOperation
from headrace.declare.source_location import SourceLocation
from headrace.declare.streams.change_capture import BEFORE_PREFIX, Changes

OLD_ROW_INPUT, NEW_ROW_INPUT = 0, 1  # which of the two inputs an event comes from
IDLE_US = 5 * UNITS_US["s"]


@dataclass(frozen=True)
class RetractableView:
    """Maintains the tiles of a view from the rows that currently exist."""

    view: View

    @property
    def changes(self) -> Changes:
        """The captured table."""
        captured_table = self.view.captured_table
        if captured_table is None:
            raise TypeError(f"{self.view.name} is not a view of a captured table")
        return captured_table


class ViewLocation(SourceLocation):
    """The location of a view's declaration."""

    def __str__(self) -> str:
        return f"view {self.file}"


def retractable_view_operation(view: View) -> StreamOperation:
    """The operation that maintains a view of a captured table."""
    spec = RetractableView(view)
    old_key, new_key = tuple(BEFORE_PREFIX + name for name in view.by), view.by
    inputs = (spec.changes, spec.changes)
    return StreamOperation(view.name, inputs, ViewLocation(view.name, 0), (old_key, new_key), spec, IDLE_US)
