"""What can be told of the past, and what cannot."""

from headrace.declare.features.view import View
from headrace.errors import HeadraceError


class PointInTimeUnsupportedError(HeadraceError):
    """Features of a captured table's rows are known as they are now, and not as they were."""


def require_point_in_time_support(view: View) -> None:
    """Refuse a view whose features at an earlier time nobody could tell."""
    for changes in view.tables_without_history:
        raise PointInTimeUnsupportedError(
            f"{view.name} reads the rows that {changes.name!r} has now, and what they were at an earlier time is not "
            'known to it. Join events with what was valid at their time, hr.join_asof(…, deleted="deleted"), and take '
            "features of that stream."
        )
