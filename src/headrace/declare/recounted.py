"""Views of a captured table: features of the rows it has now, each row in the windows of its last change.

update of row 7, FR → DE        FR: row 7 is taken out of its tile, which is folded again
                                DE: row 7 is put into the tile of now

A change is read twice: once by the entity it leaves, once by the one it comes to.
"""

from dataclasses import dataclass

from headrace.declare.changes import BEFORE, Changes
from headrace.declare.derivation import Operation
from headrace.declare.durations import UNITS_US
from headrace.declare.source_lines import Written
from headrace.declare.views import View

LEAVING, COMING = 0, 1  # which of the two inputs an event is of
IDLE_US = 5 * UNITS_US["s"]


@dataclass(frozen=True)
class Recount:
    """Keep the tiles of a view by the rows that are there."""

    view: View

    @property
    def changes(self) -> Changes:
        """The captured table."""
        found = self.view.captured
        if found is None:
            raise TypeError(f"{self.view.name} is not a view of a captured table")
        return found


class InView(Written):
    """Something that a view declares."""

    def __str__(self) -> str:
        return f"view {self.file}"


def recount_of(view: View) -> Operation:
    """The operation that keeps a view of a captured table."""
    what = Recount(view)
    left, come = tuple(BEFORE + name for name in view.by), view.by
    inputs = (what.changes, what.changes)
    return Operation(view.name, inputs, InView(view.name, 0), (left, come), what, IDLE_US)
