"""Which views support point-in-time reads."""

from headrace.declare.features.view import View
from headrace.errors import HeadraceError


class PointInTimeUnsupportedError(HeadraceError):
    """Features of a captured table's rows are known only as of now."""


def require_point_in_time_support(view: View) -> None:
    """Reject a view whose features at an earlier time are unknown."""
    for changes in view.tables_without_history:
        raise PointInTimeUnsupportedError(
            f"{view.name} reads the rows that {changes.name!r} has now, and their values at an earlier time are not "
            'known. Join events with what was valid at their time, hr.join_asof(…, deleted="deleted"), and take '
            "features of that stream."
        )
