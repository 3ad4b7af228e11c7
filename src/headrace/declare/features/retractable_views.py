"""Views of a captured table: features of the rows it has now, each row in the windows of its last change.

update of row 7, FR → DE        FR: row 7 is taken out of its tile, which is folded again
                                DE: row 7 is put into the tile of now

A change is read twice: once by the entity it leaves, once by the one it comes to.
"""

from dataclasses import dataclass

from headrace.declare.durations import UNITS_US
from headrace.declare.features.view import View
from headrace.declare.operations.operation import StreamOperation
from headrace.declare.source_location import SourceLocation
from headrace.declare.streams.change_capture import BEFORE_PREFIX, Changes

OLD_ROW_INPUT, NEW_ROW_INPUT = 0, 1  # which of the two inputs an event is of
IDLE_US = 5 * UNITS_US["s"]


@dataclass(frozen=True)
class RetractableView:
    """Keep the tiles of a view by the rows that are there."""

    view: View

    @property
    def changes(self) -> Changes:
        """The captured table."""
        captured_table = self.view.captured_table
        if captured_table is None:
            raise TypeError(f"{self.view.name} is not a view of a captured table")
        return captured_table


class ViewLocation(SourceLocation):
    """Something that a view declares."""

    def __str__(self) -> str:
        return f"view {self.file}"


def retractable_view_operation(view: View) -> StreamOperation:
    """The operation that keeps a view of a captured table."""
    spec = RetractableView(view)
    old_key, new_key = tuple(BEFORE_PREFIX + name for name in view.by), view.by
    inputs = (spec.changes, spec.changes)
    return StreamOperation(view.name, inputs, ViewLocation(view.name, 0), (old_key, new_key), spec, IDLE_US)
